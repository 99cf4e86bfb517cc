"""Find the dead units of a network: nothing makes them, or nothing reads them.

Nothing makes a unit if its rows are all zero; nothing reads it if its columns are all zero. A dead unit may
leave others without a maker or a reader, so the search is repeated until nothing changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from .constants import constants, foldable, keep_carriers, of_unmade
from .record import Dimension
from .units import Channels, Slot


def dead(
    model: nn.Module, channels: Channels, *, among: Tensor | None = None
) -> tuple[Tensor, dict[Dimension, Tensor]]:
    """Return the units that can go, and the constants that they leave, by the weight that reads them."""
    named = dict(model.named_parameters())
    may = torch.ones(channels.count, dtype=torch.bool) if among is None else among
    gone = torch.zeros(channels.count, dtype=torch.bool)
    constant = constants(channels)
    while True:
        size = {name: _size(named[name], name, channels, gone) for name in _weight_names(channels)}
        made = _largest(channels.makers, size, channels.count)
        read = _largest(channels.readers(), size, channels.count)
        fold = foldable(model, channels, constant, size)
        now = (gone | (read == 0) | ((made == 0) & fold)) & may
        if torch.equal(now, gone):
            break
        gone = now
    values = {
        (slot.name, slot.dim): of_unmade(slot, made == 0, constant[slot.name, slot.dim])
        for slot in channels.readers()
    }
    return _keep_one(channels, keep_carriers(model, channels, gone, values)), values


def _keep_one(channels: Channels, gone: Tensor) -> Tensor:
    """Keep at least one unit along every dimension."""
    gone = gone.clone()
    for slot in channels.slots:
        if bool(slot.marked(gone).all()):
            gone[slot.units[0]] = False
    return gone


def _weight_names(channels: Channels) -> list[str]:
    names = [slot.name for slot in channels.makers] + [r.weight for r in channels.readings]
    return list(dict.fromkeys(names))


def _size(weight: Tensor, name: str, channels: Channels, gone: Tensor) -> Tensor:
    """Return the absolute values of a weight, 0 where they belong to units that are gone."""
    size = weight.detach().abs().cpu()
    for slot in channels.slots:
        if slot.name == name:
            size = size.index_fill(slot.dim, slot.at(gone), 0.0)
    return size


def _largest(slots: Sequence[Slot], size: Mapping[str, Tensor], count: int) -> Tensor:
    """Return the largest entry of each unit in some slots."""
    largest = torch.zeros(count)
    for slot in slots:
        by_position = size[slot.name].movedim(slot.dim, 0).flatten(1).amax(1).float()
        largest.scatter_reduce_(0, slot.units[slot.there], by_position[slot.there], "amax")
    return largest
