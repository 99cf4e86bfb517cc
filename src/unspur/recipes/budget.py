"""Choose settings for a user's own data: our preset, with lengths for the images and the device.

The settings are those of the method `unspur` in the catalogue (catalogue/preset.toml); numbers of steps come
from lengths.py. The network is ResNet-18 at the size of the images, at most 96 pixels on a CPU and 128 on a
GPU. Images of at most 28 pixels get a small convolutional network, because ResNet-18 reduces them to one
pixel (docs/decisions/own-network.md). Pretrained weights are trained with lower learning rates and a warm-up,
the new head first (`_pretrained_changes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..errors import RecipeError
from ..training.numerics import Precision
from .composition import method_tables
from .lengths import BOUNDS, Bounds, lengths
from .loading import parse
from .settings import PruneSettings, Recipe

NETWORK = "resnet18"
SMALL_NETWORK, SMALL_OPTIONS = "convnet", {"width": 64}
SMALL_PIXELS = 28  # the largest side of images that get the small network
BF16_PIXELS = 64  # the shortest side of images for which bf16 saves time on a CPU
TRAVEL = 15.0  # how far a mask's logit can move in its stage; it starts 1.5 above the threshold
BY_CHANNEL = ("unit", "cut", "keep", "weigh")  # settings of masks on whole channels

# The share of suspects in a batch, which trades accuracy on aligned images for accuracy on conflicting ones
# (docs/decisions/mixing.md).
SHARES = {"balanced": None, "aligned": 0.25, "conflicting": 0.75}
# Of ImageNet: published weights expect these values, and they suit other photographs too.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def bounds_for(device: torch.device) -> Bounds:
    """Return the bounds for a device: what it can do in reasonable time."""
    return BOUNDS["cuda" if device.type == "cuda" else "cpu"]


def fitting_network(pixels: int) -> tuple[str, dict[str, Any]]:
    """Return name and options of the network for images whose larger side has `pixels` pixels."""
    if pixels <= SMALL_PIXELS:
        return SMALL_NETWORK, dict(SMALL_OPTIONS)
    return NETWORK, {}


def fitting_precision(device: torch.device, network: str, shape: Sequence[int]) -> Precision:
    """Return bf16 for ResNet-18 on a CPU that computes in bf16, if the images are large enough.

    Otherwise it is the usual precision. Other networks may have operations that lose too much in bf16.
    """
    large = network == NETWORK and min(shape[1:]) >= BF16_PIXELS
    return "bf16" if large and device.type == "cpu" and _computes_in_bf16() else "tf32"


def _computes_in_bf16() -> bool:
    """Return whether the CPU has instructions for bf16."""
    ask = getattr(
        torch.cpu, "_is_avx512_bf16_supported", None
    )  # not public, and missing in old versions
    return ask is not None and bool(ask())


def normalisation(channels: int) -> dict[str, tuple[float, ...]]:
    """Return the mean and spread of pixels: of photographs, or one number for any other channels."""
    if channels == len(MEAN):
        return {"mean": MEAN, "std": STD}
    return {"mean": (sum(MEAN) / len(MEAN),), "std": (sum(STD) / len(STD),)}


def settings(
    images: int,
    device: torch.device,
    *,
    name: str,
    model: str,
    options: dict[str, Any] | None = None,
    init: str = "",
    pretrained: bool = False,
    precision: Precision = "tf32",
    mean: tuple[float, ...] = MEAN,
    std: tuple[float, ...] = STD,
) -> Recipe:
    """Return a recipe for a number of training images on a device.

    `init`, `pretrained` and `precision` are as in a recipe; `mean` and `std` are what the network expects.
    """
    length = lengths(images, "cuda" if device.type == "cuda" else "cpu")
    preset = method_tables("unspur", length)
    rate = max(1e-2, TRAVEL / length["search"])
    table = {
        **preset,
        "name": name,
        "judge": True,
        "precision": precision,
        "watch_every": max(1, length["whole"] // 4),
        "data": {"augment": "flip", "mean": mean, "std": std, **preset["data"]},
        "model": {"name": model, "init": init, "options": options or {}},
        "mine": {"batch": length["wide"], "steps": length["whole"], **_adam(1e-3)},
        "prune": {**preset["prune"], "rate": rate},
    }
    changes = _pretrained_changes(length["whole"], pretrained) if init or pretrained else {}
    return parse(table, changes, where=name)


def preference(name: str) -> dict[str, object]:
    """Return the changes that move the result towards aligned or conflicting images."""
    if name not in SHARES:
        raise RecipeError(f"prefer {name!r}: choose one of {', '.join(SHARES)}.")
    share = SHARES[name]
    return {} if share is None else {"prune.share": share, "finetune.share": share}


def with_single_weights(recipe: Recipe) -> Recipe:
    """Return a recipe that masks single weights, for a network whose channels cannot be removed."""
    usual = PruneSettings()
    reset = {name: getattr(usual, name) for name in BY_CHANNEL}
    return recipe.model_copy(update={"prune": recipe.prune.model_copy(update=reset)})


def with_network(recipe: Recipe, name: str | None, init: str, pretrained: bool) -> Recipe:
    """Return a recipe with another network or other initial weights, if they are given."""
    network, start = recipe.model, recipe.start
    if name is not None and name != network.name:
        network = type(network)(name=name)  # options and head belong to the other network
    if init:
        network = network.model_copy(update={"init": init})
    if pretrained:
        start = start.model_copy(update={"pretrained": True})
    return recipe.model_copy(update={"model": network, "start": start})


def _pretrained_changes(steps: int, pretrained: bool) -> dict[str, object]:
    """Return the changes for pretrained weights: learning rates that do not destroy them.

    The learning rate is a tenth of that from scratch, after a warm-up of a twentieth of the steps. The new
    head is trained alone for the first tenth of the steps. Fine-tuning has the same learning rate.
    """
    return {
        "start.pretrained": pretrained,
        "start.warmup": steps // 20,
        "start.head_first": steps // 10,
        "mine.rate": 1e-4,
        "pretrain.rate": 1e-4,
        "adapt.rate": 1e-4,
        "finetune.rate": 1e-4,
    }


def _adam(rate: float) -> dict[str, object]:
    return {"optimiser": "adam", "rate": rate, "weight_decay": 0.0}
