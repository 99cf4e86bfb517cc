"""Count what units cost: parameters, or multiply–adds for one image."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from .units import Channels


def unit_costs(
    channels: Channels, shapes: Mapping[str, torch.Size], times: Mapping[str, int] | None = None
) -> Tensor:
    """Return the cost of each unit: its weights, or its multiply–adds if `times` are given.

    A weight between two units counts half for each, so that the costs of all units add up to that of all
    weights.
    """
    costs = torch.zeros(channels.count, dtype=torch.float64)
    for slot in channels.slots:
        shape = shapes.get(slot.name, torch.Size())
        if len(shape) < 2:
            continue
        each = math.prod(shape) / shape[slot.dim] / 2
        each *= 1 if times is None else times[slot.name]
        units = slot.units[slot.occupied]
        costs.index_add_(0, units, torch.full((len(units),), each, dtype=torch.float64))
    return costs
