"""The model of a run, loaded from its folder: classify images, score it on a data set."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .. import models
from ..data.batches import CHUNK, Preprocess
from ..data.decoding import pixels
from ..data.splits import Splits
from ..errors import DataError, ModelError, StoreError
from ..masks.channels.resize import resize
from ..stages.evaluate import evaluation_split, score_predictions
from ..store import read_json, read_tensors
from ..store.packing import NAME as PACKED
from ..store.packing import read_packed
from ..training.metrics import Accuracy
from ..training.prediction import predict
from .run_folder import FORMAT


class Classifier(nn.Module):
    """A model loaded from a run's folder: images in, logits out, preprocessing included."""

    def __init__(self, model: nn.Module, about: dict[str, Any]):
        super().__init__()
        self.model = model
        self.classes: tuple[str, ...] = tuple(about["classes"])
        self.shape: tuple[int, int, int] = tuple(about["input"]["shape"])
        self.crop: pixels.Crop = about["input"].get("crop", "stretch")
        self.preprocess = Preprocess(tuple(about["input"]["mean"]), tuple(about["input"]["std"]))
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        """Return logits of images (N, C, H, W) as the data held them: uint8, or floats as in training."""
        logits: Tensor = self.model(self.preprocess(images))
        return logits

    def read(self, path: Path | str) -> Tensor:
        """Read an image file as uint8 (C, H, W), decoded and resized as images in files are for training."""
        channels, high, wide = self.shape
        try:
            image = torch.from_numpy(pixels.read(path, (high, wide), self.crop).copy())
        except pixels.DAMAGES as error:
            raise DataError(f"{path}: not a readable image ({error}).") from None
        return image if channels == 3 else image.float().mean(0, keepdim=True).to(torch.uint8)

    @torch.no_grad()
    def predict(self, paths: Sequence[Path | str]) -> list[tuple[str, float]]:
        """Return the class and its probability for each image file."""
        device = next(self.parameters()).device
        images = torch.stack([self.read(path) for path in paths]).to(device)
        best = torch.softmax(self(images), dim=1).max(1)
        return [(self.classes[int(i)], float(p)) for p, i in zip(*best, strict=True)]


def score(model: Classifier, splits: Splits) -> Accuracy:
    """Return every accuracy of a loaded model on the test split of a data set (or what it has instead)."""
    if model.shape != splits.train.shape or len(model.classes) != len(splits.classes):
        raise DataError(
            f"the model takes {model.shape} images of {len(model.classes)} classes; {splits.name} has "
            f"{splits.train.shape} images of {len(splits.classes)}."
        )
    name = evaluation_split(splits)
    part = splits.parts()[name]
    images = map(part.take, torch.split(torch.arange(len(part)), CHUNK))
    predicted = predict(model, images).argmax(1)
    return score_predictions(predicted, splits, name)


def load(folder: Path | str, model: nn.Module | None = None) -> Classifier:
    """Load the model of a run; `model` is needed only where the run was given one as an object."""
    folder = Path(folder)
    about = read_json(folder / "model.json")
    if about.get("format") != FORMAT:
        raise StoreError(
            f"{folder / 'model.json'} has format {about.get('format')!r}, not {FORMAT}."
        )
    if missing := {"builder", "classes", "input", "sha256"} - about.keys():
        raise StoreError(f"{folder / 'model.json'} is damaged (no {', '.join(sorted(missing))}).")
    weights = _weights(folder, about)
    model = _build(about, folder, model)
    if slim := about.get("slim"):
        resize(model, weights, slim["heads"])
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise ModelError(f"the weights in {folder} do not fit the model: {error}") from None
    return Classifier(model, about)


def _weights(folder: Path, about: dict[str, Any]) -> dict[str, Tensor]:
    packed = "packed_sha256" in about and not (folder / "model.safetensors").exists()
    path = folder / (PACKED if packed else "model.safetensors")
    checksum = about["packed_sha256" if packed else "sha256"]
    weights = read_packed(path) if packed else read_tensors(path)
    if hashlib.sha256(path.read_bytes()).hexdigest() != checksum:
        raise StoreError(f"{path} is damaged: its checksum differs from the one in model.json.")
    return weights


def _build(about: dict[str, Any], folder: Path, model: nn.Module | None) -> nn.Module:
    how = about["builder"]
    if model is not None:
        return _paired(models.copies_of(model), how) if "paired" in how else model
    if how.get("given"):
        raise ModelError(
            f"{folder} was made from a model object ({how['name']}). Build it again and pass it: "
            "unspur.load(folder, model=...)."
        )
    builder = models.builder(how["name"], len(about["classes"]), how["options"])
    return _paired(builder, how) if "paired" in how else builder.make()


def _paired(builder: models.Builder, how: dict[str, Any]) -> nn.Module:
    return models.paired(builder, how["paired"]).make()
