"""What a run leaves in its folder, and the model back from it.

model.safetensors    plain state-dict names, pruned weights exactly zero
masks.safetensors    `<weight>_mask` for every masked weight, as torch's own pruning names them
model.json           how to build the network, classes, preprocessing
scores.json          what was measured
recipe.toml          every setting, resolved
run.json             which artifacts of the store it was made of, with times and versions
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from . import models, recipe
from .data.collect import pixels
from .data.source import Preprocess
from .data.splits import Splits
from .errors import DataError, ModelError, StoreError
from .evaluation import evaluation_split, score_predictions
from .lab import Lab, Made
from .metrics import Accuracy
from .store import Artifact, environment, read_tensors, write_bytes, write_tensors
from .train import predict, under
from .version import VERSION

FORMAT = 1


def save(lab: Lab, made: Made, scores: Artifact, out: Path) -> None:
    """Write the folder of a run."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot make the folder {out} ({error.strerror}). All stages are stored: give the same "
            "command with another --out."
        ) from None
    weights, keep = outcome(made)
    checksum = write_tensors(out / "model.safetensors", weights)
    write_tensors(out / "masks.safetensors", {f"{name}_mask": t for name, t in keep.items()})
    about = {
        "format": FORMAT,
        "unspur": VERSION,
        "builder": dict(lab.builder.how),
        "classes": list(lab.splits.classes),
        "input": {
            "shape": list(lab.splits.train.images.shape[1:]),
            "scale": 255 if lab.splits.train.images.dtype == torch.uint8 else 1,
            "mean": list(lab.recipe.data.mean),
            "std": list(lab.recipe.data.std),
        },
        "sha256": checksum,
    }
    _write(out / "model.json", about)
    _write(out / "scores.json", scores.facts)
    write_bytes(out / "recipe.toml", recipe.dump(lab.recipe).encode())
    _write(out / "run.json", record(lab, made, scores))


def outcome(made: Made) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The final weights and masks of a plan; the ordinary model's, and none, where it ended there."""
    if "finetune" not in made:
        return made["pretrain"].tensors, {}
    return under(made["finetune"].tensors, "weights."), under(made["prune"].tensors, "keep.")


def record(lab: Lab, made: Made, scores: Artifact) -> dict[str, Any]:
    """Where a run came from: artifacts, times, versions, hardware."""
    stages = {name: _times(artifact) for name, artifact in {**made, "evaluate": scores}.items()}
    return {
        "recipe": lab.recipe.name,
        "seed": lab.recipe.seed,
        "data": {"name": lab.splits.name, "digest": lab.splits.digest},
        "device": lab.device.type,
        "stages": stages,
        "seconds": round(sum(times["seconds"] for times in stages.values()), 3),
        "with": environment(),
    }


def _times(artifact: Artifact) -> dict[str, Any]:
    """How long a stage took, its share where several runs were made at once; with what it was made."""
    about = artifact.about
    beside = about.get("beside", 1)
    setup = sum(row.get("setup_seconds", 0) for row in artifact.log)
    return {
        "artifact": artifact.path.name,
        "seconds": round(about["seconds"] / beside, 3),
        **({"beside": beside} if beside > 1 else {}),
        **({"setup_seconds": round(setup / beside, 3)} if setup else {}),
        "with": about["with"],
    }


class Classifier(nn.Module):
    """A model loaded from a run's folder: images in, logits out, preprocessing included."""

    def __init__(self, model: nn.Module, about: dict[str, Any]):
        super().__init__()
        self.model = model
        self.classes: tuple[str, ...] = tuple(about["classes"])
        self.shape: tuple[int, int, int] = tuple(about["input"]["shape"])
        self.preprocess = Preprocess(tuple(about["input"]["mean"]), tuple(about["input"]["std"]))
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        """Logits of images (N, C, H, W) as the data held them: uint8, or the floats it was trained on."""
        logits: Tensor = self.model(self.preprocess(images))
        return logits

    def read(self, path: Path | str) -> Tensor:
        """An image file as uint8 (C, H, W), resized to what the model was trained on."""
        try:
            with Image.open(path) as image:
                channels, height, width = self.shape
                colours = image.convert("RGB")  # first: a palette cannot be interpolated
                if colours.size != (width, height):
                    colours = colours.resize((width, height))
                found = pixels(colours)
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise DataError(f"{path}: not a readable image ({error}).") from None
        return found if channels == 3 else found.float().mean(0, keepdim=True).to(torch.uint8)

    @torch.no_grad()
    def predict(self, paths: Sequence[Path | str]) -> list[tuple[str, float]]:
        """For each image file, the class and its probability."""
        images = torch.stack([self.read(path) for path in paths])
        best = torch.softmax(self(images), dim=1).max(1)
        return [(self.classes[int(i)], float(p)) for p, i in zip(*best, strict=True)]


def score(model: Classifier, splits: Splits) -> Accuracy:
    """Every accuracy of a loaded model on the test split of a data set (or what it has instead)."""
    if model.shape != tuple(splits.train.images.shape[1:]) or len(model.classes) != len(
        splits.classes
    ):
        raise DataError(
            f"the model takes {model.shape} images of {len(model.classes)} classes; {splits.name} has "
            f"{tuple(splits.train.images.shape[1:])} images of {len(splits.classes)}."
        )
    name = evaluation_split(splits)
    predicted = predict(model, iter(torch.split(splits.parts()[name].images, 1000))).argmax(1)
    return score_predictions(predicted, splits, name)


def load(folder: Path | str, model: nn.Module | None = None) -> Classifier:
    """The model of a run; `model` is needed only where the run was given one as an object."""
    folder = Path(folder)
    about = _read(folder / "model.json")
    if about.get("format") != FORMAT:
        raise StoreError(
            f"{folder / 'model.json'} has format {about.get('format')!r}, not {FORMAT}."
        )
    if missing := {"builder", "classes", "input", "sha256"} - about.keys():
        raise StoreError(f"{folder / 'model.json'} is damaged (no {', '.join(sorted(missing))}).")
    weights = _weights(folder / "model.safetensors", about["sha256"])
    if model is None:
        model = _build(about, folder)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise ModelError(f"the weights in {folder} do not fit the model: {error}") from None
    return Classifier(model, about)


def _weights(path: Path, checksum: str) -> dict[str, Tensor]:
    weights = read_tensors(path)
    if hashlib.sha256(path.read_bytes()).hexdigest() != checksum:
        raise StoreError(f"{path} is damaged: its checksum differs from the one in model.json.")
    return weights


def _build(about: dict[str, Any], folder: Path) -> nn.Module:
    how = about["builder"]
    if how.get("given"):
        raise ModelError(
            f"{folder} was made from a model object ({how['name']}). Build it again and pass it: "
            "unspur.load(folder, model=...)."
        )
    return models.builder(how["name"], len(about["classes"]), how["options"]).make()


def _write(path: Path, content: Any) -> None:
    write_bytes(path, (json.dumps(content, indent=1) + "\n").encode())


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise StoreError(f"{path} is missing: {path.parent} is not the folder of a run.") from None
    except ValueError as error:
        raise StoreError(f"{path} is damaged ({error}).") from None
    if not isinstance(found, dict):
        raise StoreError(f"{path} is damaged (it holds no table).")
    return found
