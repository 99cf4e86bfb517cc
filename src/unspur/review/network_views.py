"""Results of a run's networks for an image: predictions, neighbours in feature space, saliency maps.

Everything is computed on first use. Features are computed in the background, for all images, or for a sample
if there are many.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..data.decoding.pixels import CROPS
from ..errors import UnspurError
from ..models.head import Tap, find_head
from ..runs.classifier import Classifier
from ..runs.finished import is_audit
from ..runs.named_models import open_models
from ..stages.inspection import saliency
from ..stages.place import pick_device
from .image_sources import ImageSource

MOST_FEATURES = 4000  # largest number of images to search for neighbours
CHUNK = 64
LOOK_SIDE = 512  # pixels of the longer side of a saliency map
HEAT = (255, 122, 0)

Networks = Mapping[str, Classifier]


def no_networks() -> Networks:
    return {}


class NetworkViews:
    """Evaluates the networks of a folder on rows; `missing` is the reason if there are no networks."""

    def __init__(self, load: Callable[[], Networks], images: ImageSource, missing: str = ""):
        self._load, self.images, self.missing = load, images, missing
        self._networks: Networks | None = None
        self._lock = threading.Lock()  # one evaluation at a time
        self._features: Features | None = None

    def replace_images(self, images: ImageSource) -> None:
        """Use the images of another table from now on."""
        with self._lock:
            self.images, self._features = images, None

    def networks(self) -> Networks:
        """Return the networks by name, loaded once; empty if they cannot be loaded."""
        if self._networks is None:
            try:
                self._networks = {} if self.missing else self._load()
            except UnspurError as error:
                self._networks, self.missing = {}, f"The network cannot be loaded: {error}"
        return self._networks

    def load_again(self) -> dict[str, Classifier]:
        """Load networks that only the caller uses, so that no hook of this object sees their inputs."""
        return dict(self._load())

    def predictions(self, row: int) -> list[dict[str, Any]]:
        """Return the predicted class of each network, and its probability."""
        with self._lock:
            return [
                {"network": name, **_prediction(model, self.images.pixels(row, model))}
                for name, model in self.networks().items()
            ]

    def look(self, row: int, network: str) -> Image.Image:
        """Return the saliency map of a network as a transparent picture of the size of the image."""
        with self._lock:
            model = self.networks()[network]
            x = model.preprocess(_batch(model, [self.images.pixels(row, model)]))
            heat = saliency(model.model, x)[0]
        size = self.images.show(row, LOOK_SIDE).size
        return fit_map(paint_heat(heat), size, CROPS[model.crop])

    def neighbours(self, row: int, candidates: Sequence[int], count: int) -> dict[str, Any]:
        """Return the rows that are most similar for the last network, or the progress of the features."""
        if not self.networks():
            return {"missing": self.missing}
        features = self._begin(candidates)
        if features.problem:
            return {"missing": features.problem}
        if not features.done:
            return {"wait": features.progress}
        with self._lock:
            found = features.nearest(row, count)
        return {"rows": found, "among": len(features.rows)}

    def _begin(self, candidates: Sequence[int]) -> Features:
        """Return the features; start their computation in a thread on the first call."""
        with self._lock:
            if self._features is None:
                model = list(self.networks().values())[-1]
                step = max(1, -(-len(candidates) // MOST_FEATURES))
                rows = list(candidates)[::step]
                self._features = Features(model, self.images, rows, self._lock)
                threading.Thread(target=self._features.compute, daemon=True).start()
            return self._features


class Features:
    """The normalised input of a network's head for some rows.

    `compute` holds `lock` while the network runs, since its hook would also see the inputs of other threads.
    """

    def __init__(
        self, model: Classifier, images: ImageSource, rows: list[int], lock: threading.Lock
    ):
        self.model, self.images, self.rows, self.lock = model, images, rows, lock
        self.problem, self.progress, self.done = "", 0.0, False
        self._head = ""
        self._matrix = torch.empty(0)

    def compute(self) -> None:
        """Compute the features of all rows; rows whose image cannot be read are left out."""
        try:
            parts, kept = [], []
            for start in range(0, len(self.rows), CHUNK):
                some = [row for row in self.rows[start : start + CHUNK] if self._can_read(row)]
                if some:
                    with self.lock:
                        parts.append(self._of(some))
                    kept += some
                self.progress = (start + CHUNK) / len(self.rows)
            self.rows, self._matrix = kept, torch.cat(parts)
            self.done = True
        except Exception as error:  # of a user's network; the page shows the error
            self.problem = f"Neighbours cannot be found: {error}"

    def _can_read(self, row: int) -> bool:
        try:
            self.images.pixels(row, self.model)
        except UnspurError:
            return False
        return True

    def _of(self, rows: Sequence[int]) -> Tensor:
        images = _batch(self.model, [self.images.pixels(row, self.model) for row in rows])
        x = self.model.preprocess(images)
        self._head = self._head or find_head(self.model.model, x)
        tap = Tap(self.model.model, self._head)
        try:
            with torch.no_grad():
                found = tap(x)[1].float().cpu()
        finally:
            tap.hook.remove()
        return torch.nn.functional.normalize(found, dim=1)

    def nearest(self, row: int, count: int) -> list[dict[str, Any]]:
        """Return the most similar other rows with their cosine similarity."""
        similarity = self._matrix @ self._of([row])[0]
        order = torch.argsort(similarity, descending=True)[: count + 1].tolist()
        found = [{"row": self.rows[i], "similarity": round(float(similarity[i]), 3)} for i in order]
        return [each for each in found if each["row"] != row][:count]


def paint_heat(heat: Tensor) -> Image.Image:
    """Return a map of values between 0 and 1 as an orange picture with this opacity."""
    alpha = (255 * 0.85 * heat.detach().cpu().clamp(0, 1)).round().byte().numpy()
    pixels = np.empty((*alpha.shape, 4), np.uint8)
    pixels[..., :3] = HEAT
    pixels[..., 3] = alpha
    return Image.fromarray(pixels, "RGBA")


def fit_map(heat: Image.Image, size: tuple[int, int], share: float | None) -> Image.Image:
    """Return a map of a network's input in the shape of the original image.

    `share` is the part of the shorter side that was cropped as a centred square; None if the image was
    resized without cropping.
    """
    wide, high = size
    if share is None:
        return heat.resize(size, Image.Resampling.BILINEAR)
    side = max(1, round(share * min(size)))
    whole = Image.new("RGBA", size, (*HEAT, 0))
    place = ((wide - side) // 2, (high - side) // 2)
    whole.paste(heat.resize((side, side), Image.Resampling.BILINEAR), place)
    return whole


def _batch(model: Classifier, images: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(images)).to(next(model.parameters()).device)


@torch.no_grad()
def _prediction(model: Classifier, image: Tensor) -> dict[str, Any]:
    shares = torch.softmax(model(_batch(model, [image])), dim=1)[0]
    best = int(shares.argmax())
    return {"predicted": model.classes[best], "probability": round(float(shares[best]), 4)}


def open_views(
    folder: Path, images: ImageSource, *, model: str | None = None, trust: bool = False
) -> NetworkViews:
    """Return the views of a run's networks; an audit stores no networks."""
    if is_audit(folder):
        return NetworkViews(
            no_networks,
            images,
            "An audit stores no network. Review a run to see neighbours and where a network looks.",
        )

    def load() -> Networks:
        found = open_models(folder, model, trust=trust)
        return {name: each.to(pick_device(None)) for name, each in found.items()}

    return NetworkViews(load, images)
