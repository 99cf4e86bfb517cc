"""The units of a network that can be removed whole: a channel with all that is coupled to it, or a head."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from .follow import follow
from .record import Followed, Reading

HEADS = ("num_heads", "n_heads", "n_head", "heads", "num_attention_heads")


@dataclass(frozen=True, eq=False)
class Slot:
    """A dimension of a parameter or buffer, and the unit at each position along it (-1: none)."""

    name: str
    dim: int
    units: Tensor

    def marked(self, units: Tensor) -> Tensor:
        """Which positions belong to marked units."""
        return units[self.units.clamp(min=0)] & (self.units >= 0)

    def at(self, units: Tensor) -> Tensor:
        """The positions of marked units."""
        return self.marked(units).nonzero().squeeze(1)


@dataclass(frozen=True)
class Channels:
    """Units 0, 1, ... of a network, every place they show in it, and why the others must stay."""

    count: int
    slots: tuple[Slot, ...]
    makers: tuple[Slot, ...]  # where units are made: rows of weights
    gates: tuple[Slot, ...]  # what to multiply by a mask so that a unit is 0 from there on
    readings: tuple[Reading, ...]
    groups: Mapping[str, Tensor]  # units by the first layer that makes them
    heads: Mapping[str, Tensor]  # by the attending module, the unit of every head
    kept: Mapping[str, str]  # weights whose channels must stay, with the reason

    def readers(self) -> list[Slot]:
        """Where units are read: columns of weights."""
        read = {(r.weight, r.dim) for r in self.readings}
        return [slot for slot in self.slots if (slot.name, slot.dim) in read]

    def without(self, names: Iterable[str], why: str) -> Channels:
        """The same, but the units of these groups must stay."""
        doomed = torch.zeros(self.count, dtype=torch.bool)
        for name in names:
            doomed[self.groups[name]] = True
        number = torch.where(doomed, -1, torch.cumsum(~doomed, 0) - 1)

        def renamed(units: Tensor) -> Tensor:
            return torch.where(units < 0, -1, number[units.clamp(min=0)])

        def through(slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
            moved = (replace(slot, units=renamed(slot.units)) for slot in slots)
            return tuple(slot for slot in moved if bool((slot.units >= 0).any()))

        return replace(
            self,
            count=int((~doomed).sum()),
            slots=through(self.slots),
            makers=through(self.makers),
            gates=through(self.gates),
            groups={k: renamed(u) for k, u in self.groups.items() if k not in set(names)},
            heads={k: renamed(u) for k, u in self.heads.items()},
            kept={**self.kept, **dict.fromkeys(names, why)},
        )


def units(model: nn.Module, x: Tensor) -> Channels:
    """The units of a plain network, found by running it on a few images."""
    seen = follow(model, x)
    _refuse_unknown_heads(model, seen)
    number = _numbered(seen)
    slots = tuple(_slot(key, ids, seen, number) for key, ids in seen.slots.items())
    slots = tuple(slot for slot in slots if bool((slot.units >= 0).any()))
    makers = tuple(slot for slot in slots if (slot.name, slot.dim) in seen.made)
    return Channels(
        count=len(number),
        slots=slots,
        makers=makers,
        gates=_gates(slots, makers, seen, dict(model.named_parameters())),
        readings=tuple(seen.readings),
        groups=_groups(makers, len(number)),
        heads={
            name: torch.tensor([number.get(seen.ledger.root(int(i)), -1) for i in ids])
            for name, ids in seen.heads.items()
            if all(i >= 0 for i in ids)
        },
        kept=_kept(seen),
    )


def head_attribute(module: nn.Module, count: int) -> str | None:
    """Where a module that attends keeps its number of heads."""
    return next((a for a in HEADS if getattr(module, a, None) == count), None)


def _refuse_unknown_heads(model: nn.Module, seen: Followed) -> None:
    """Heads can be removed where the module that attends says how many it has."""
    for name, ids in seen.heads.items():
        module = model.get_submodule(name)
        plain = not isinstance(module, nn.MultiheadAttention) or (
            module._qkv_same_embed_dim and module.bias_k is None and not module.add_zero_attn
        )
        if head_attribute(module, len(ids)) is None or not plain:
            seen.ledger.freeze(ids, f"the heads of {name or 'the model'} are not told by num_heads")


def _numbered(seen: Followed) -> dict[int, int]:
    """A number for every root that may go; one that is all there is along some dimension must stay."""
    ledger = seen.ledger
    for (name, _), ids in seen.slots.items():
        roots = torch.unique(ledger.roots(ids))
        if len(roots) == 1:
            ledger.freeze(roots, f"{name} has no other")
    numbers: dict[int, int] = {}
    for ids in seen.made.values():
        for root in ledger.roots(ids).tolist():
            if ledger.root(root) not in ledger.reasons:
                numbers.setdefault(root, len(numbers))
    return numbers


def _slot(key: tuple[str, int], ids: Tensor, seen: Followed, number: Mapping[int, int]) -> Slot:
    roots = seen.ledger.roots(ids)
    return Slot(*key, torch.tensor([number.get(int(i), -1) for i in roots], dtype=torch.int64))


def _gates(
    slots: tuple[Slot, ...],
    makers: tuple[Slot, ...],
    seen: Followed,
    parameters: Mapping[str, nn.Parameter],
) -> tuple[Slot, ...]:
    """Rows of weights, biases, scales and shifts; with batch norm behind a layer, only the latter two.

    Batch norm undoes any scaling of the weight before it, so a mask on that weight would learn nothing.
    """
    made = {(slot.name, slot.dim) for slot in makers}
    hidden = {slot.name.rpartition(".")[0] for slot in makers if slot.name in seen.after}
    return tuple(
        slot
        for slot in slots
        if slot.name in parameters
        and slot.name.rpartition(".")[0] not in hidden
        and ((slot.name, slot.dim) in made or parameters[slot.name].dim() == 1)
    )


def _groups(makers: tuple[Slot, ...], count: int) -> dict[str, Tensor]:
    """Units made side by side, by the name of the first weight that makes them."""
    group = torch.full((count,), -1)
    names: list[str] = []
    for slot in makers:
        mine = slot.units[slot.units >= 0]
        known = torch.unique(group[mine])
        if int(known.max()) < 0:
            names.append(slot.name)
            group[mine] = len(names) - 1
        else:
            first = int(known[known >= 0].min())
            for other in known.tolist():
                group[
                    group == other if other >= 0 else torch.zeros_like(group, dtype=torch.bool)
                ] = first
            group[mine] = first
    found = {name: (group == i).nonzero().squeeze(1) for i, name in enumerate(names)}
    return {name: each for name, each in found.items() if len(each)}


def _kept(seen: Followed) -> dict[str, str]:
    """The weights that make channels which must stay, with the reason."""
    kept = {}
    for (name, _), ids in seen.made.items():
        roots = {seen.ledger.root(int(i)) for i in ids}
        if reason := next((seen.ledger.reasons[r] for r in roots if r in seen.ledger.reasons), ""):
            kept[name] = reason
    return kept
