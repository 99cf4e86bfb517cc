"""The model of a run, loaded from its folder: classify images, score it on a data set."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Mapping, Sequence
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
from ..store import check_folder, read_tensors
from ..store.packing import NAME as PACKED
from ..store.packing import read_packed
from ..training.metrics import Accuracy
from ..training.prediction import predict
from .model_description import MODEL, read_description
from .run_folder import ORDINARY

# Options of timm that load weights. They are left out, because the weights are in the folder.
WEIGHT_OPTIONS = (
    "pretrained",
    "pretrained_cfg",
    "pretrained_cfg_overlay",
    "checkpoint_path",
    "cache_dir",
)
# Errors of building a network with wrong options, and of loading weights into it.
MISFITS = (
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    MemoryError,
)
# How many weights may be allocated per stored weight, and in addition (200 MB, which are harmless).
FACTOR, SLIM_FACTOR, SPARE = 8, 1000, 50_000_000
# A plain name: timm would load a network from a name with a hub or a folder in it.
TIMM_NAME = re.compile(r"[\w.\-]+")


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
        """Return the logits of images (N, C, H, W) before preprocessing: uint8, or floats as in training."""
        logits: Tensor = self.model(self.preprocess(images))
        return logits

    def read(self, path: Path | str) -> Tensor:
        """Read an image file as uint8 (C, H, W), decoded and resized as in training."""
        channels, high, wide = self.shape
        try:
            image = torch.from_numpy(pixels.read(path, (high, wide), self.crop).copy())
        except pixels.UnreadableImage as error:
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
    """Return the accuracies of a model on the test split of a data set, or on another split without one."""
    if model.shape != splits.train.shape or len(model.classes) != len(splits.classes):
        raise DataError(
            f"the model takes {model.shape} images of {len(model.classes)} classes, and {splits.name} has "
            f"{splits.train.shape} images of {len(splits.classes)} classes."
        )
    name = evaluation_split(splits)
    part = splits.parts()[name]
    images = map(part.take, torch.split(torch.arange(len(part)), CHUNK))
    predicted = predict(model, images).argmax(1)
    return score_predictions(predicted, splits, name)


def load(folder: Path | str, model: nn.Module | None = None, *, trust: bool = False) -> Classifier:
    """Load the model of a run, of its `ordinary` folder or of an export, and verify the checksums.

    Args:
        folder: The folder of a run or of an export.
        model: A network of the same kind, which is copied; needed only if the run was made with an
            nn.Module.
        trust: Whether to run the Python file that built the network (`file.py:builder`). It must not have
            changed since. Without `trust`, loading a folder never runs code.
    """
    folder = Path(folder)
    _refuse_absent(folder)
    check_folder(folder, MODEL)
    about = read_description(folder)
    weights = _weights(folder, about)
    try:
        with models.limit_weights(_most_weights(about, weights)):
            network = _build(about, folder, model, trust=trust)
        if slim := about.get("slim"):
            resize(network, weights, slim["heads"])
        _refuse_misfit(network, weights, folder)
        network.load_state_dict(weights)
    except MISFITS as error:
        raise ModelError(f"the weights in {folder} do not fit the model: {error}") from error
    except ModelError as error:
        raise _name_file(error, folder / MODEL) from error.__cause__
    return Classifier(network, about)


def _refuse_misfit(network: nn.Module, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Raise ModelError with the first differences if the weights are those of another network."""
    if differences := models.describe_differences(network.state_dict(), weights):
        raise ModelError(
            f"the weights in {folder} do not fit the model: {differences}. Give the network that the run was "
            "made with, with as many classes."
        )


def _name_file(error: ModelError, path: Path) -> ModelError:
    """Add the file that describes the network to the message of an error."""
    if str(path.parent) in str(error):
        return error
    named = ModelError(f"{path}: its network cannot be built: {error}")
    named.traceback = error.traceback
    return named


def _most_weights(about: Mapping[str, Any], weights: Mapping[str, Tensor]) -> int:
    """Return how many weights building the network may allocate, in relation to the stored ones.

    The limit is larger because the builder may build a network more than once, and because a slim network is
    first built with all its channels.
    """
    stored = sum(tensor.numel() for tensor in weights.values())
    return SPARE + stored * (SLIM_FACTOR if about.get("slim") else FACTOR)


def _refuse_absent(folder: Path) -> None:
    """Raise an error that says why a folder has no model, if it is the folder of something else."""
    if (folder / MODEL).exists():
        return
    names = sorted(path.parent.name for path in folder.glob(f"*/{MODEL}"))
    if names and (folder / "comparison.json").exists():
        raise StoreError(
            f"{folder} is a comparison of methods, with a run for each: {', '.join(names)}. Name one of "
            f"these, such as {folder / names[0]}."
        )
    if (folder / "audit.json").exists():
        raise StoreError(
            f"{folder} is the folder of an audit, which has no model. Name the folder of a run; `unspur "
            "debias` makes one."
        )
    run = folder.parent
    if folder.name == ORDINARY and not folder.exists() and (run / MODEL).exists():
        raise StoreError(
            f"{run} has no separate {ORDINARY} model: the model of that run is the ordinary one, or its "
            f"plan does not train one. Load {run} instead."
        )


def _weights(folder: Path, about: dict[str, Any]) -> dict[str, Tensor]:
    packed = "packed_sha256" in about and not (folder / "model.safetensors").exists()
    path = folder / (PACKED if packed else "model.safetensors")
    checksum = about["packed_sha256" if packed else "sha256"]
    weights = read_packed(path) if packed else read_tensors(path)
    if hashlib.sha256(path.read_bytes()).hexdigest() != checksum:
        raise StoreError(f"{path} is damaged: its checksum differs from the one in {MODEL}.")
    return weights


def _build(
    about: dict[str, Any], folder: Path, model: nn.Module | None, *, trust: bool
) -> nn.Module:
    how = about["builder"]
    only_logits = how.get("output") == "logits"
    if model is not None:
        model = models.return_logits(model) if only_logits else model
        return (
            _paired(models.copy_builder(model), how) if how.get("paired") else copy.deepcopy(model)
        )
    if how.get("given"):
        raise ModelError(
            f"{folder} was made with an nn.Module ({how['name']}). Build it again and pass it: model=... in "
            "Python, --model file.py:builder on the command line."
        )
    _refuse_code(how, folder, trust=trust)
    options = {name: each for name, each in how["options"].items() if name not in WEIGHT_OPTIONS}
    builder = models.builder(
        how["name"], len(about["classes"]), options, checksum=how.get("sha256")
    )
    builder = models.build_with_logits(builder) if only_logits else builder
    return _paired(builder, how) if how.get("paired") else builder.make()


def _refuse_code(how: Mapping[str, Any], folder: Path, *, trust: bool) -> None:
    """Raise ModelError if building the network would run code that the user does not trust."""
    name: str = how["name"]
    if name.startswith(models.TIMM) and not TIMM_NAME.fullmatch(name.removeprefix(models.TIMM)):
        raise ModelError(
            f"{folder}: {name!r} is not the name of a network in timm. Names of other sources are refused."
        )
    if not models.in_file(name):
        return
    passing = "build the network yourself and pass it: unspur.load(folder, model=...)"
    if not trust:
        raise ModelError(
            f"{folder} was made with {name}, and loading it would run that file. If you trust it, say so: "
            f"--trust on the command line, unspur.load(folder, trust=True) in Python. Or {passing}."
        )
    if how.get("sha256") is None:
        raise ModelError(
            f"{folder} has no checksum of {name}, so it is not known whether the file has changed. Run the "
            f"command of the run again, or {passing}."
        )


def _paired(builder: models.Builder, how: Mapping[str, Any]) -> nn.Module:
    return models.paired(builder, how["paired"]).make()
