"""Choose settings for a user's own images: our preset, with a length that fits the images and the device.

Settings come from the method `unspur` of the catalogue (catalogue/preset.toml), numbers of steps from
lengths.py. The network is ResNet-18 at the size of the images, at most 96 pixels on a CPU and 128 on a GPU.
Images of at most 28 pixels get the small convolutional network, because ResNet-18 would reduce them to one
pixel (docs/decisions/own-network.md). From pretrained weights, training uses lower rates and a warm-up, and
trains the new head first (`_gentler`).
"""

from __future__ import annotations

from typing import Any

import torch

from ..errors import RecipeError
from .composition import method_tables
from .lengths import BOUNDS, Bounds, lengths
from .loading import parse
from .settings import PruneSettings, Recipe

NETWORK = "resnet18"
SMALL_NETWORK, SMALL_OPTIONS = "convnet", {"width": 64}
SMALL_PIXELS = 28  # the largest side of images that get the small network
TRAVEL = 15.0  # how far a mask logit can move in its stage; it starts 1.5 above the threshold
BY_CHANNEL = ("unit", "cut", "keep", "weigh")  # settings of masks on whole channels

# The share of suspects in a batch. A larger share gives more accuracy on conflicting images and less on
# aligned ones (docs/decisions/mixing.md).
SHARES = {"balanced": None, "aligned": 0.25, "conflicting": 0.75}
# Mean and standard deviation of ImageNet, which published weights expect and which suit other photographs.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def of(device: torch.device) -> Bounds:
    """Return the bounds for a kind of device."""
    return BOUNDS["cuda" if device.type == "cuda" else "cpu"]


def fitting_network(pixels: int) -> tuple[str, dict[str, Any]]:
    """Return the name and options of the network for images whose longer side has this many pixels."""
    if pixels <= SMALL_PIXELS:
        return SMALL_NETWORK, dict(SMALL_OPTIONS)
    return NETWORK, {}


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
    mean: tuple[float, ...] = MEAN,
    std: tuple[float, ...] = STD,
) -> Recipe:
    """Return a recipe for a number of training images on a device.

    `init` and `pretrained` are as in a recipe; `mean` and `std` are what the network expects.
    """
    length = lengths(images, "cuda" if device.type == "cuda" else "cpu")
    preset = method_tables("unspur", length)
    rate = max(1e-2, TRAVEL / length["search"])
    table = {
        **preset,
        "name": name,
        "judge": True,
        "watch_every": max(1, length["whole"] // 4),
        "data": {"augment": "flip", "mean": mean, "std": std, **preset["data"]},
        "model": {"name": model, "init": init, "options": options or {}},
        "mine": {"batch": length["wide"], "steps": length["whole"], **_adam(1e-3)},
        "prune": {**preset["prune"], "rate": rate},
    }
    changes = _gentler(length["whole"], pretrained) if init or pretrained else {}
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
    """Return a recipe with the network and the initial weights that the user chose, if any."""
    network, start = recipe.model, recipe.start
    if name is not None and name != network.name:
        network = type(network)(name=name)  # options and head belong to the other network
    if init:
        network = network.model_copy(update={"init": init})
    if pretrained:
        start = start.model_copy(update={"pretrained": True})
    return recipe.model_copy(update={"model": network, "start": start})


def _gentler(steps: int, pretrained: bool) -> dict[str, object]:
    """Return the changes for pretrained weights: lower rates, which preserve them.

    The rate is a tenth of that for random weights, reached after a warm-up of a twentieth of the steps.
    Before that, only the new head is trained, for a tenth of the steps. Fine-tuning has the same rate,
    because it also starts from such weights.
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
