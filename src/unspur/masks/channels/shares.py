"""Choose the units to keep, by a score, so that the network costs a given share of its multiply–adds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from ..multiply_adds import uses
from .units import Channels

Spread = Literal["global", "layer"]


@torch.no_grad()
def norms(model: nn.Module, channels: Channels) -> Tensor:
    """Return the L2 norm of the weights that make each unit, divided by the mean norm of its group."""
    named = dict(model.named_parameters())
    squares = torch.zeros(channels.count)
    for slot in channels.makers:
        rows = named[slot.name].detach().cpu().float().movedim(slot.dim, 0).flatten(1)
        squares.index_add_(0, slot.units[slot.occupied], rows[slot.occupied].square().sum(1))
    for members in channels.groups.values():
        squares[members] /= squares[members].sqrt().mean().square().clamp(min=1e-30)
    return squares.sqrt()


@dataclass(frozen=True)
class MultiplyAddCounter:
    """Counts the multiply–adds of a network with only some of its units."""

    channels: Channels
    shapes: Mapping[str, torch.Size]
    times: Mapping[str, int]

    @classmethod
    def of(cls, model: nn.Module, channels: Channels, x: Tensor) -> MultiplyAddCounter:
        """Build a counter for a network, from a few images as network input."""
        shapes = {name: p.shape for name, p in model.named_parameters() if p.dim() > 1}
        return cls(channels, shapes, uses(model, x, list(shapes)))

    def __call__(self, keep: Tensor) -> float:
        """Return the multiply–adds of the network if only these units are kept."""
        counts = {n: float(math.prod(s) * self.times[n]) for n, s in self.shapes.items()}
        for slot in self.channels.slots:
            if slot.name in counts:
                counts[slot.name] *= float(slot.left(keep).float().mean())
        return sum(counts.values())


def keep_share(
    scores: Tensor, counter: MultiplyAddCounter, share: float, *, spread: Spread = "global"
) -> Tensor:
    """Return the units with the highest scores, as many as fit into a share of all multiply–adds.

    spread="global" ranks the units of all layers together; "layer" keeps the same share of every layer's
    units. Every group keeps its best unit.
    """
    groups = list(counter.channels.groups.values())
    rank = _ranks(scores, [torch.arange(len(scores))] if spread == "global" else groups)
    best = torch.zeros(len(scores), dtype=torch.bool)
    for members in groups:
        best[members[scores[members].argmax()]] = True
    limit = share * counter(torch.ones_like(best))
    levels = torch.unique(rank)
    low, high = 0, len(levels)  # the largest number of levels that fit lies in this range
    while low < high:
        middle = (low + high + 1) // 2
        fits = counter(best | (rank <= levels[middle - 1])) <= limit
        low, high = (middle, high) if fits else (low, middle - 1)
    return best | (rank <= levels[low - 1]) if low else best


def _ranks(scores: Tensor, groups: list[Tensor]) -> Tensor:
    """Return the rank of each unit in its group, best first, as a share of the group."""
    rank = torch.zeros(len(scores), dtype=torch.float64)
    for members in groups:
        order = torch.argsort(scores[members], descending=True, stable=True)
        place = torch.empty(len(members), dtype=torch.float64)
        place[order] = torch.arange(1, len(members) + 1, dtype=torch.float64) / len(members)
        rank[members] = place
    return rank
