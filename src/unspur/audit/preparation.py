"""Prepare an audit: choose its settings, and check whether the data can be audited."""

from __future__ import annotations

from typing import Any

import torch

from ..data.splits import Part
from ..errors import DataError
from ..recipes import Recipe, parse
from ..recipes.lengths import audit_lengths
from ..stages.batch_check import check_batches
from ..stages.context import Context

FEWEST = 100  # smallest number of images that can be audited
SMALLEST = 8  # pixels: the shortest side that its networks accept
NETWORK = "convnet"
WIDTH = 16  # of the network; the thresholds were chosen for it


def settings(
    images: int, *, name: str, model: str = NETWORK, seed: int = 0, steps: int = 0
) -> Recipe:
    """Return the recipe of an audit: `mine` is for the miner, `pretrain` for all other networks.

    `images` is the number of training images. `steps` is the length of every training; 0 chooses it by the
    number of images.
    """
    training = _half_training(images, steps)
    table = {
        "name": name,
        "seed": seed,
        "model": {"name": model, "options": {"width": WIDTH} if model == NETWORK else {}},
        "mine": mining(images, steps),
        "pretrain": training,
        "select": {"rule": "last"},
    }
    return parse(table, where=name)


def _half_training(images: int, steps: int = 0) -> dict[str, Any]:
    """Return the settings of a training on one half of the images."""
    defaults = audit_lengths(images)
    length = {**defaults, "steps": steps or defaults["steps"]}
    return {**length, "rate": 5e-3, "schedule": "cosine"}


def mining(images: int, steps: int = 0) -> dict[str, Any]:
    """Return the settings of the miner on one half of the images."""
    return {**_half_training(images, steps), "optimiser": "adam", "weight_decay": 0.0}


def is_enough(images: Part) -> bool:
    """Return whether there are enough images, of sufficient size and several classes, for an audit."""
    several = len(torch.unique(images.targets)) > 1
    return several and len(images.targets) >= FEWEST and min(images.shape[1:]) >= SMALLEST


def check(context: Context) -> None:
    """Raise before anything is trained if the data cannot be audited."""
    targets, name = context.splits.train.targets, context.splits.name
    if len(torch.unique(targets)) < 2:
        only = context.splits.classes[int(targets[0])]
        raise DataError(
            f"{name}: all training images are of one class, {only!r}. An audit compares classes: give "
            "images of at least two."
        )
    if len(targets) < FEWEST:
        raise DataError(
            f"{name}: {len(targets)} training images are too few for an audit, which trains networks on "
            f"one half of them. Give at least {FEWEST}, better some thousands."
        )
    if (channels := context.splits.train.shape[0]) not in (1, 3):
        raise DataError(
            f"{name}: images of {channels} channels cannot be audited. Its networks and views take images "
            "in grey or in three colours."
        )
    if not is_enough(context.splits.train):
        high, wide = context.splits.train.shape[1:]
        raise DataError(
            f"{name}: images of {wide} x {high} pixels are too small for an audit. Its networks need "
            f"{SMALLEST} pixels on each side."
        )
    check_batches(context, ("mine", "pretrain"))  # raises also if the network does not fit the data
