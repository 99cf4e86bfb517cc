"""Which units of a network are dead: nothing makes them, or nothing reads them.

Nothing makes a unit if its rows are all zero; nothing reads it if its columns are. What dies takes others
with it, so this is asked again until nothing changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from .constants import constants, foldable, of_silent, spare_carriers
from .units import Channels, Slot


def dead(
    model: nn.Module, channels: Channels, *, among: Tensor | None = None
) -> tuple[Tensor, dict[tuple[str, int], Tensor]]:
    """Which units can go, and for each reading the values of what goes, by position."""
    named = dict(model.named_parameters())
    may = torch.ones(channels.count, dtype=torch.bool) if among is None else among
    gone = torch.zeros(channels.count, dtype=torch.bool)
    constant = constants(channels)
    while True:
        size = {name: _size(named[name], name, channels, gone) for name in _weights(channels)}
        made = _largest(channels.makers, size, channels.count)
        read = _largest(channels.readers(), size, channels.count)
        fold = foldable(model, channels, constant, size)
        now = (gone | (read == 0) | ((made == 0) & fold)) & may
        if torch.equal(now, gone):
            break
        gone = now
    values = {
        (slot.name, slot.dim): of_silent(slot, made == 0, constant[slot.name, slot.dim])
        for slot in channels.readers()
    }
    return _spare_last(channels, spare_carriers(model, channels, gone, values)), values


def _spare_last(channels: Channels, gone: Tensor) -> Tensor:
    """Fewer units gone: one stays where none would be left."""
    gone = gone.clone()
    for slot in channels.slots:
        if bool(slot.marked(gone).all()):
            gone[slot.units[0]] = False
    return gone


def _weights(channels: Channels) -> list[str]:
    names = [slot.name for slot in channels.makers] + [r.weight for r in channels.readings]
    return list(dict.fromkeys(names))


def _size(weight: Tensor, name: str, channels: Channels, gone: Tensor) -> Tensor:
    """A weight's absolute values, 0 where it belongs to units that are gone."""
    size = weight.detach().abs().cpu()
    for slot in channels.slots:
        if slot.name == name:
            size = size.index_fill(slot.dim, slot.at(gone), 0.0)
    return size


def _largest(slots: Sequence[Slot], size: Mapping[str, Tensor], count: int) -> Tensor:
    """The largest entry of any unit in some slots."""
    largest = torch.zeros(count)
    for slot in slots:
        by_position = size[slot.name].movedim(slot.dim, 0).flatten(1).amax(1).float()
        there = slot.units >= 0
        largest.scatter_reduce_(0, slot.units[there], by_position[there], "amax")
    return largest
