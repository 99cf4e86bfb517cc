"""Masks that are not learned: keep the weights with the highest scores, overall or layer by layer."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from .. import noise

Scores = Mapping[str, Tensor]


def magnitude(weights: Scores) -> dict[str, Tensor]:
    """Return the absolute value of every weight as its score."""
    return {name: w.abs() for name, w in weights.items()}


def chance(weights: Scores, *, seed: int) -> dict[str, Tensor]:
    """Return a random score for every weight."""
    return {
        name: noise.uniform(seed, 0, noise.FIRST_WEIGHT + order, tuple(w.shape))
        for order, (name, w) in enumerate(weights.items())
    }


def keep_share(scores: Scores, share: float) -> dict[str, Tensor]:
    """Return masks of the weights with the highest scores, over all layers together."""
    flat = torch.cat([s.flatten() for s in scores.values()])
    sizes = [s.numel() for s in scores.values()]
    masks = torch.split(keep_most(flat, round(share * len(flat))), sizes)
    return {name: k.view_as(s) for (name, s), k in zip(scores.items(), masks, strict=True)}


def keep_counts(scores: Scores, like: Scores) -> dict[str, Tensor]:
    """Return masks of the highest scores, as many in every layer as the masks `like` keep."""
    return {name: keep_most(s, int(like[name].sum())) for name, s in scores.items()}


def keep_most(scores: Tensor, count: int) -> Tensor:
    """Mark the `count` highest scores; of equal scores, the first ones."""
    order = torch.sort(scores.flatten(), descending=True, stable=True).indices
    keep = torch.zeros(scores.numel(), dtype=torch.bool, device=scores.device)
    keep[order[:count]] = True
    return keep.view_as(scores)
