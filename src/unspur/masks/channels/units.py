"""The units of a network that can be removed: a channel with all that is coupled to it, or a head."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .record import Reading


@dataclass(frozen=True, eq=False)
class Slot:
    """A dimension of a parameter or buffer, and the unit at each position along it (-1: none)."""

    name: str
    dim: int
    units: Tensor

    @property
    def occupied(self) -> Tensor:
        """Return which positions belong to a unit."""
        return self.units >= 0

    def marked(self, units: Tensor) -> Tensor:
        """Return which positions belong to marked units."""
        return units[self.units.clamp(min=0)] & self.occupied

    def at(self, units: Tensor) -> Tensor:
        """Return the positions of marked units."""
        return self.marked(units).nonzero().squeeze(1)

    def left(self, keep: Tensor) -> Tensor:
        """Return which positions remain if only the units marked in `keep` are kept."""
        return keep[self.units.clamp(min=0)] | ~self.occupied


@dataclass(frozen=True)
class Channels:
    """Units 0, 1, ... of a network, every slot where they occur, and why other channels cannot be removed."""

    count: int
    slots: tuple[Slot, ...]
    makers: tuple[Slot, ...]  # where units are made: rows of weights
    gates: tuple[Slot, ...]  # where a mask is applied so that the unit's output is 0
    readings: tuple[Reading, ...]
    groups: Mapping[str, Tensor]  # units by the first layer that makes them
    heads: Mapping[str, Tensor]  # by the attention module, the unit of every head
    unremovable: Mapping[str, str]  # weights whose channels cannot be removed, with the reason

    def readers(self) -> list[Slot]:
        """Return where units are read: columns of weights."""
        read = {(r.weight, r.dim) for r in self.readings}
        return [slot for slot in self.slots if (slot.name, slot.dim) in read]

    def without(self, names: Iterable[str], why: str) -> Channels:
        """Return a copy in which the units of some groups are not removable."""
        dropped = torch.zeros(self.count, dtype=torch.bool)
        for name in names:
            dropped[self.groups[name]] = True
        number = torch.where(dropped, -1, torch.cumsum(~dropped, 0) - 1)
        return replace(
            self,
            count=int((~dropped).sum()),
            slots=_renumber_slots(self.slots, number),
            makers=_renumber_slots(self.makers, number),
            gates=_renumber_slots(self.gates, number),
            groups={k: _renumber(u, number) for k, u in self.groups.items() if k not in set(names)},
            heads={k: _renumber(u, number) for k, u in self.heads.items()},
            unremovable={**self.unremovable, **dict.fromkeys(names, why)},
        )


def _renumber(units: Tensor, number: Tensor) -> Tensor:
    return torch.where(units < 0, -1, number[units.clamp(min=0)])


def _renumber_slots(slots: tuple[Slot, ...], number: Tensor) -> tuple[Slot, ...]:
    moved = (replace(slot, units=_renumber(slot.units, number)) for slot in slots)
    return tuple(slot for slot in moved if bool(slot.occupied.any()))
