"""What is known of a network's channels while it runs: whose entries are whose, and what uses what."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from .numbering import FIXED, FREE, Ledger, varying


@dataclass(frozen=True)
class Reading:
    """What a weight saw of the channels it reads: their least and largest values, and zero padding."""

    weight: str
    dim: int
    low: Tensor
    high: Tensor
    padded: bool


@dataclass
class Place:
    """A tensor that is a parameter or a buffer, or a part of one: positions in it, flat."""

    name: str
    shape: torch.Size
    index: Tensor

    def along(self, dim: int) -> Tensor:
        """Where along a dimension of the parameter every entry lies."""
        after = math.prod(self.shape[dim + 1 :])
        return (self.index // after) % self.shape[dim]


@dataclass
class Followed:
    """What was seen: for every dimension of every parameter the channels along it, and how it is used."""

    ledger: Ledger = field(default_factory=Ledger)
    slots: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    made: dict[tuple[str, int], Tensor] = field(
        default_factory=dict
    )  # the slots that make channels
    after: dict[str, str] = field(default_factory=dict)  # batch norm by the weight right before it
    readings: list[Reading] = field(default_factory=list)
    heads: dict[str, Tensor] = field(default_factory=dict)  # by the module that attends


class Trail:
    """The channels of all that exists so far: of activations by entry, of parameters by dimension."""

    def __init__(self, model: nn.Module):
        self.seen = Followed()
        self.ids: Any = WeakTensorKeyDictionary()  # activations: the channel of each entry
        self.places: Any = WeakTensorKeyDictionary()  # parameters, buffers, parts of them
        self.dues: Any = WeakTensorKeyDictionary()  # what must stay if anything uses a tensor
        self.inside: list[str] = []  # the modules that are running, the innermost last
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            index = torch.arange(tensor.numel()).reshape(tensor.shape)
            self.places[tensor] = Place(name, tensor.shape, index)

    def numbers(self, tensor: Tensor) -> Tensor:
        """The channel of each entry; those of a parameter among activations are along its last dimension."""
        if tensor in self.ids:
            return self.ids[tensor]  # type: ignore[no-any-return]
        if tensor not in self.places:
            return torch.full((), FREE if tensor.numel() == 1 else FIXED).expand(tensor.shape)
        place = self.places[tensor]
        dim = max((d for d in range(len(place.shape)) if place.shape[d] > 1), default=0)
        return self.make(place, dim)[place.along(dim)]

    def settle(self, tensors: list[Tensor]) -> None:
        """Freeze what must stay now that these tensors are used."""
        for tensor in tensors:
            if tensor in self.dues:
                self.seen.ledger.freeze(*self.dues[tensor])

    def why(self, name: str) -> str:
        """The reason that an operation is: its name, and the module that runs it."""
        where = self.inside[-1] if self.inside and self.inside[-1] else "the model itself"
        return f"{name} in {where}"

    def freeze(self, ids: Tensor, name: str) -> None:
        """These channels must stay, because of this operation."""
        self.seen.ledger.freeze(ids, self.why(name))

    def columns(self, x: Tensor, dim: int) -> Tensor:
        """One channel for each position along a dimension of an activation; those that share one merge."""
        ids: Tensor = self.ids[x].movedim(dim, 0)
        lead = ids.reshape(len(ids), -1)[:, 0] if ids.numel() else ids
        rest = ids.movedim(0, -1)
        if all(d == rest.dim() - 1 for d in varying(rest)):
            return lead.clone()
        return torch.tensor(
            [self.seen.ledger.merge_all(part, self.why("a mixed layout")) for part in ids]
        )

    def read(self, name: str, dim: int, x: Tensor, padded: bool, at: Tensor | None = None) -> None:
        """A weight reads channels along one of its dimensions."""
        axis = 1 if at is None else x.dim() - 1
        ids = self.columns(x, axis)
        low, high = (f(x.movedim(axis, 0).flatten(1), 1) for f in (torch.amin, torch.amax))
        size = len(ids) if at is None else int(at.max()) + 1
        at = torch.arange(size) if at is None else at
        place = torch.full((size,), FREE)
        place[at] = ids
        self.bind(name, dim, place)
        least, most = (torch.zeros(size).index_put((at,), v.float().cpu()) for v in (low, high))
        self.seen.readings.append(Reading(name, dim, least, most, padded))

    def make(self, place: Place, dim: int) -> Tensor:
        """The channels that a parameter makes along one of its dimensions."""
        key = (place.name, dim)
        if key not in self.seen.made:
            self.seen.made[key] = self.seen.ledger.fresh(place.shape[dim])
            self.bind(*key, self.seen.made[key])
        return self.seen.made[key]

    def vector(self, tensor: Tensor | None, ids: Tensor) -> None:
        """A bias, a scale, a running mean: one entry for each channel."""
        if tensor is None or tensor not in self.places:
            return
        place = self.places[tensor]
        found = torch.full((math.prod(place.shape),), FREE)
        found[place.index.reshape(-1)] = ids
        self.bind(place.name, 0, found)

    def bind(self, name: str, dim: int, ids: Tensor) -> None:
        """These are the channels along a dimension of a parameter; merged with those known before."""
        key, ledger = (name, dim), self.seen.ledger
        known = self.seen.slots.get(key)
        if known is not None and len(known) < len(ids):
            known = torch.cat([known, torch.full((len(ids) - len(known),), FREE)])
        if known is not None and len(ids) < len(known):
            ids = torch.cat([ids, torch.full((len(known) - len(ids),), FREE)])
        merged = ids if known is None else ledger.merge(known, ids, f"two uses of {name}")
        self.seen.slots[key] = merged
