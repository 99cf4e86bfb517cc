"""Cut the training data into two halves, and choose random samples to compare suspects with."""

from __future__ import annotations

import torch
from torch import Tensor

from .. import noise

HALVES = 2
FOLD_STREAM, MATCH_STREAM = 700, 701  # streams of random numbers


def cut_in_halves(targets: Tensor, *, seed: int, first: Tensor | None = None) -> Tensor:
    """Return the half of each sample, 0 or 1; every class is cut as evenly as possible.

    With `first`, the index of the first copy of each image, all copies of an image are in the same half.
    """
    usable = torch.ones_like(targets, dtype=torch.bool)
    if first is not None:
        usable = first == torch.arange(len(targets))
    keys = noise.bits(seed, 0, FOLD_STREAM, (len(targets),))
    half_of = torch.zeros(len(targets), dtype=torch.int64)
    before = 0  # so that classes of odd size give their spare sample to the halves in turn
    for label in torch.unique(targets).tolist():
        order = _shuffled((targets == label) & usable, keys)
        half_of[order] = (before + torch.arange(len(order))) % HALVES
        before += len(order)
    return half_of if first is None else half_of[first]


def matched_sample(conflict: Tensor, groups: Tensor, *, seed: int) -> Tensor:
    """Select at random as many samples of each group as it has suspects."""
    keys = noise.bits(seed, 0, MATCH_STREAM, (len(groups),))
    selected = torch.zeros_like(conflict)
    for group in torch.unique(groups[conflict]).tolist():
        count = int(conflict[groups == group].sum())
        selected[_shuffled(groups == group, keys)[:count]] = True
    return selected


def _shuffled(among: Tensor, keys: Tensor) -> Tensor:
    """Return the indices of some samples in the order of their random keys."""
    members = among.nonzero().squeeze(1)
    return members[torch.sort(keys[members], stable=True).indices]
