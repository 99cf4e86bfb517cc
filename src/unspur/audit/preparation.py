"""Before an audit: its settings, and whether the data can be audited."""

from __future__ import annotations

from typing import Any

import torch

from ..data.splits import Part
from ..errors import DataError
from ..recipes import Recipe, parse
from ..recipes.lengths import audit_lengths
from ..stages.batch_check import check_batches
from ..stages.context import Context

FEWEST = 100  # samples that an audit needs
SMALLEST = 8  # pixels of a side that its networks can take
NETWORK = "convnet"
WIDTH = 16  # of the network; the thresholds belong to it


def settings(
    images: int, *, name: str, model: str = NETWORK, seed: int = 0, steps: int = 0
) -> Recipe:
    """Return the recipe for so many training images: `mine` is for the miner, `pretrain` for all others.

    `steps` is the length of every training; it depends on the number of images if 0.
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
    """Return the settings of a training on one half of so many images."""
    usual = audit_lengths(images)
    length = {**usual, "steps": steps or usual["steps"]}
    return {**length, "rate": 5e-3, "schedule": "cosine"}


def mining(images: int, steps: int = 0) -> dict[str, Any]:
    """Return the settings of the miner on one half of so many images."""
    return {**_half_training(images, steps), "optimiser": "adam", "weight_decay": 0.0}


def is_enough(images: Part) -> bool:
    """Return whether these images are many enough, large enough and of several classes to be audited."""
    several = len(torch.unique(images.targets)) > 1
    return several and len(images.targets) >= FEWEST and min(images.shape[1:]) >= SMALLEST


def check(context: Context) -> None:
    """Raise before anything is trained if the data cannot be audited."""
    targets, name = context.splits.train.targets, context.splits.name
    if len(torch.unique(targets)) < 2:
        only = context.splits.classes[int(targets[0])]
        raise DataError(
            f"{name}: all training images are of one class, {only!r}. A shortcut tells classes apart; "
            "give images of at least two."
        )
    if len(targets) < FEWEST:
        raise DataError(
            f"{name}: {len(targets)} training images are too few for an audit, which asks networks about "
            f"images they were not trained on. Give at least {FEWEST}, better some thousands."
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
