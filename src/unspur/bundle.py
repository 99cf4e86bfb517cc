"""What a run leaves in its folder, and the model back from it.

model.safetensors    plain state-dict names, pruned weights exactly zero
masks.safetensors    `<weight>_mask` for every masked weight, as torch's own pruning names them
model.json           how to build the network, classes, preprocessing
scores.json          what was measured
suspects.csv         which training samples contradict the shortcut, to be looked at and given back
recipe.toml          every setting, resolved
run.json             which artifacts of the store it was made of, with times and versions
report.html          all of it on one page
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from . import models, recipe
from .channels import resize
from .data import pixels
from .data.source import CHUNK, Preprocess
from .data.splits import Splits
from .errors import DataError, ModelError, StoreError
from .evaluation import evaluation_split, score_predictions
from .lab import Lab, Made, last_stage, masks_of, weights_of
from .metrics import Accuracy
from .mining import Suspects
from .packed import NAME as PACKED
from .packed import read_packed
from .store import Artifact, environment, make_folder, read_tensors, write_bytes, write_tensors
from .suspects import write_suspects
from .train import predict
from .version import VERSION

FORMAT = 1


def save(lab: Lab, made: Made, scores: Artifact, out: Path) -> None:
    """Write the folder of a run."""
    make_folder(out)
    weights, keep = outcome(made)
    checksum = write_tensors(out / "model.safetensors", weights)
    write_tensors(out / "masks.safetensors", {f"{name}_mask": t for name, t in keep.items()})
    about = {
        "format": FORMAT,
        "unspur": VERSION,
        "builder": dict(lab.final.how),
        "classes": list(lab.splits.classes),
        "input": {
            "shape": list(lab.splits.train.shape),
            "scale": 255 if lab.splits.train.dtype == torch.uint8 else 1,
            "mean": list(lab.recipe.data.mean),
            "std": list(lab.recipe.data.std),
            "crop": lab.splits.crop,
        },
        "sha256": checksum,
    }
    _write(out / "model.json", about)
    _write(out / "scores.json", scores.facts)
    write_bytes(out / "recipe.toml", recipe.dump(lab.recipe).encode())
    if "mine" in made:
        found = Suspects.of(made["mine"].tensors, "train")
        write_suspects(out / "suspects.csv", lab.splits.train, lab.splits.classes, found, lab.given)
    save_record(lab, made, scores, out)


def save_record(
    lab: Lab,
    made: Made,
    scores: Artifact,
    out: Path,
    *,
    inspected: Artifact | None = None,
    command: str = "",
) -> None:
    """Write what the folder was made of; a report finds the artifacts by it."""
    about = record(lab, made, scores, inspected=inspected)
    where = {"command": command, "store": os.path.relpath(lab.store.root, out)}
    _write(out / "run.json", {**where, **about})


def outcome(made: Made) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The final weights and masks of a plan; the ordinary model's, and none, where it ended there."""
    stage = last_stage(made)
    assert stage is not None, "every plan ends in a network"
    return weights_of(made, stage), masks_of(made)


def record(
    lab: Lab, made: Made, scores: Artifact, *, inspected: Artifact | None = None
) -> dict[str, Any]:
    """Where a run came from: artifacts, times, versions, hardware."""
    artifacts = {**made, "evaluate": scores, **({"inspect": inspected} if inspected else {})}
    stages = {name: _times(artifact) for name, artifact in artifacts.items()}
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
        self.crop: pixels.Crop = about["input"].get("crop", "stretch")
        self.preprocess = Preprocess(tuple(about["input"]["mean"]), tuple(about["input"]["std"]))
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        """Logits of images (N, C, H, W) as the data held them: uint8, or the floats it was trained on."""
        logits: Tensor = self.model(self.preprocess(images))
        return logits

    def read(self, path: Path | str) -> Tensor:
        """An image file as uint8 (C, H, W), decoded and resized as images in files are for training."""
        channels, high, wide = self.shape
        try:
            found = torch.from_numpy(pixels.read(path, (high, wide), self.crop).copy())
        except pixels.DAMAGES as error:
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
    """The model of a run; `model` is needed only where the run was given one as an object."""
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
        return _paired(models.given(model), how) if "paired" in how else model
    if how.get("given"):
        raise ModelError(
            f"{folder} was made from a model object ({how['name']}). Build it again and pass it: "
            "unspur.load(folder, model=...)."
        )
    builder = models.builder(how["name"], len(about["classes"]), how["options"])
    return _paired(builder, how) if "paired" in how else builder.make()


def _paired(builder: models.Builder, how: dict[str, Any]) -> nn.Module:
    return models.paired(builder, how["paired"]).make()


def _write(path: Path, content: Any) -> None:
    write_bytes(path, (json.dumps(content, indent=1) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """A table that a run's folder holds."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise StoreError(f"{path} is missing: {path.parent} is not the folder of a run.") from None
    except ValueError as error:
        raise StoreError(f"{path} is damaged ({error}).") from None
    if not isinstance(found, dict):
        raise StoreError(f"{path} is damaged (it holds no table).")
    return found
