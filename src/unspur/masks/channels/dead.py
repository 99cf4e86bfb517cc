"""Find the dead units of a network: units that no weight makes, or that no weight reads.

A unit is not made if its rows are all zero, and not read if its columns are all zero. Removing a dead unit
may leave others without a maker or a reader, so the search repeats until nothing changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from .constants import constants, foldable, keep_carriers, without_maker
from .record import Dimension
from .units import Channels, Slot


def dead(
    model: nn.Module, channels: Channels, *, among: Tensor | None = None
) -> tuple[Tensor, dict[Dimension, Tensor]]:
    """Return which units can be removed, and the constants they leave, by the weight that reads them.

    `among` limits the search to some units.
    """
    named = dict(model.named_parameters())
    allowed = torch.ones(channels.count, dtype=torch.bool) if among is None else among
    removed = torch.zeros(channels.count, dtype=torch.bool)
    constant = constants(channels)
    while True:
        size = {
            name: _size(named[name], name, channels, removed) for name in _weight_names(channels)
        }
        maker_size = _largest(channels.makers, size, channels.count)
        reader_size = _largest(channels.readers(), size, channels.count)
        fold = foldable(model, channels, constant, size)
        now = (removed | (reader_size == 0) | ((maker_size == 0) & fold)) & allowed
        if torch.equal(now, removed):
            break
        removed = now
    values = {
        (slot.name, slot.dim): without_maker(slot, maker_size == 0, constant[slot.name, slot.dim])
        for slot in channels.readers()
    }
    return _keep_one(channels, keep_carriers(model, channels, removed, values)), values


def _keep_one(channels: Channels, removed: Tensor) -> Tensor:
    """Keep at least one unit along every dimension."""
    removed = removed.clone()
    for slot in channels.slots:
        if bool(slot.marked(removed).all()):
            removed[slot.units[0]] = False
    return removed


def _weight_names(channels: Channels) -> list[str]:
    names = [slot.name for slot in channels.makers] + [r.weight for r in channels.readings]
    return list(dict.fromkeys(names))


def _size(weight: Tensor, name: str, channels: Channels, removed: Tensor) -> Tensor:
    """Return the absolute values of a weight, with 0 for removed units."""
    size = weight.detach().abs().cpu()
    for slot in channels.slots:
        if slot.name == name:
            size = size.index_fill(slot.dim, slot.at(removed), 0.0)
    return size


def _largest(slots: Sequence[Slot], size: Mapping[str, Tensor], count: int) -> Tensor:
    """Return the largest entry of each unit over the slots."""
    largest = torch.zeros(count)
    for slot in slots:
        by_position = size[slot.name].movedim(slot.dim, 0).flatten(1).amax(1).float()
        largest.scatter_reduce_(0, slot.units[slot.occupied], by_position[slot.occupied], "amax")
    return largest
