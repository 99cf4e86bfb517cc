"""Find the units of a network: from the trace of its channels to numbered units."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from .record import ChannelTrace, Dimension
from .trace import trace
from .units import Channels, Slot

HEADS = ("num_heads", "n_heads", "n_head", "heads", "num_attention_heads")


def units(model: nn.Module, x: Tensor) -> Channels:
    """Find the units of a network without masks by running it on a few images."""
    record = trace(model, x)
    _freeze_unknown_heads(model, record)
    number = _number_units(record)
    slots = tuple(_slot(key, ids, record, number) for key, ids in record.along.items())
    slots = tuple(slot for slot in slots if bool(slot.occupied.any()))
    makers = tuple(slot for slot in slots if (slot.name, slot.dim) in record.outputs)
    return Channels(
        count=len(number),
        slots=slots,
        makers=makers,
        gates=_gates(slots, makers, record, dict(model.named_parameters())),
        readings=tuple(record.readings),
        groups=_groups(makers, len(number)),
        heads=_heads(record, number),
        unremovable=_unremovable(record),
    )


def head_attribute(module: nn.Module, count: int) -> str | None:
    """Return the attribute in which an attention module stores its number of heads."""
    return next((a for a in HEADS if getattr(module, a, None) == count), None)


def _freeze_unknown_heads(model: nn.Module, record: ChannelTrace) -> None:
    """Freeze the heads of modules that do not store how many they have."""
    for name, ids in record.heads.items():
        module = model.get_submodule(name)
        plain = not isinstance(module, nn.MultiheadAttention) or (
            module._qkv_same_embed_dim and module.bias_k is None and not module.add_zero_attn
        )
        if head_attribute(module, len(ids)) is None or not plain:
            why = f"{name or 'the model'} does not store its number of heads as num_heads"
            record.numbers.freeze(ids, why)


def _number_units(record: ChannelTrace) -> dict[int, int]:
    """Number the removable channels, by root; a channel that is the only one along a dimension is frozen."""
    numbers = record.numbers
    for (name, _), ids in record.along.items():
        roots = torch.unique(numbers.roots(ids))
        if len(roots) == 1:
            numbers.freeze(roots, f"{name} has no other channel")
    units: dict[int, int] = {}
    for ids in record.outputs.values():
        for root in numbers.roots(ids).tolist():
            if numbers.root(root) not in numbers.reasons:
                units.setdefault(root, len(units))
    return units


def _slot(key: Dimension, ids: Tensor, record: ChannelTrace, number: Mapping[int, int]) -> Slot:
    roots = record.numbers.roots(ids)
    return Slot(*key, torch.tensor([number.get(int(i), -1) for i in roots], dtype=torch.int64))


def _heads(record: ChannelTrace, number: Mapping[int, int]) -> dict[str, Tensor]:
    """Return the unit of every head, by attention module."""
    return {
        name: torch.tensor([number.get(record.numbers.root(int(i)), -1) for i in ids])
        for name, ids in record.heads.items()
        if all(i >= 0 for i in ids)
    }


def _gates(
    slots: tuple[Slot, ...],
    makers: tuple[Slot, ...],
    record: ChannelTrace,
    parameters: Mapping[str, nn.Parameter],
) -> tuple[Slot, ...]:
    """Choose the slots that get a mask: rows of weights, biases, and scales and shifts of batch norm.

    A layer before batch norm gets no mask: batch norm undoes any scaling of its weight, so that the mask
    would learn nothing.
    """
    rows = {(slot.name, slot.dim) for slot in makers}
    normed = {slot.name.rpartition(".")[0] for slot in makers if slot.name in record.batch_norms}
    return tuple(
        slot
        for slot in slots
        if slot.name in parameters
        and slot.name.rpartition(".")[0] not in normed
        and ((slot.name, slot.dim) in rows or parameters[slot.name].dim() == 1)
    )


def _groups(makers: tuple[Slot, ...], count: int) -> dict[str, Tensor]:
    """Group the units that share a weight which makes them, by the first such weight."""
    group = torch.full((count,), -1)
    names: list[str] = []
    for slot in makers:
        members = slot.units[slot.occupied]
        known = torch.unique(group[members])
        known = known[known >= 0]
        if not len(known):
            names.append(slot.name)
        first = int(known.min()) if len(known) else len(names) - 1
        group[torch.isin(group, known)] = first
        group[members] = first
    by_name = {name: (group == i).nonzero().squeeze(1) for i, name in enumerate(names)}
    return {name: each for name, each in by_name.items() if len(each)}


def _unremovable(record: ChannelTrace) -> dict[str, str]:
    """Return the weights whose channels cannot be removed, with the reason."""
    reasons, numbers = {}, record.numbers
    for (name, _), ids in record.outputs.items():
        roots = {numbers.root(int(i)) for i in ids}
        if why := next((numbers.reasons[r] for r in roots if r in numbers.reasons), ""):
            reasons[name] = why
    return reasons
