"""Fold the constants that dead units leave behind into the layers that read them.

A unit whose weights are all zero may still be a constant, from a bias or from batch norm. The constant is
added to the bias of the layer that reads it. With zero padding this would be wrong at the border. In this
case one constant channel stays and carries all the others; this is exact because a convolution is linear.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ..verbs import CONVS, CONVS_T
from .record import Dimension
from .units import Channels, Slot

# The constant at each position that a weight reads, by weight and dimension; NaN where the value varies.
Constants = Mapping[Dimension, Tensor]


def constants(channels: Channels) -> dict[Dimension, Tensor]:
    """Return the constant that each weight reads at each position, NaN where the values differ.

    If a weight is used twice, a value counts as constant only if it is 0 both times.
    """
    values: dict[Dimension, Tensor] = {}
    for reading in channels.readings:
        key = (reading.weight, reading.dim)
        spread = reading.high - reading.low
        same = spread <= 1e-6 * reading.high.abs().clamp(min=1.0)
        value = torch.where(same, reading.high, torch.nan)
        if key in values:
            value = torch.where((value == 0) & (values[key] == 0), 0.0, torch.nan)
        values[key] = value
    return values


def foldable(
    model: nn.Module, channels: Channels, constant: Constants, size: Mapping[str, Tensor]
) -> Tensor:
    """Return the units whose value every reader could absorb as a constant, with the constants measured."""
    absorbable = torch.ones(channels.count, dtype=torch.bool)
    for slot in channels.readers():
        value = constant[slot.name, slot.dim]
        unread = size[slot.name].movedim(slot.dim, 0).flatten(1).amax(1) == 0
        has_bias = _bias_name(model, slot.name) is not None
        absorbs = unread | (value == 0) | (~value.isnan() & has_bias)
        absorbable[slot.units[slot.occupied & ~absorbs]] = False
    return absorbable


def without_maker(slot: Slot, unit_mask: Tensor, value: Tensor) -> Tensor:
    """Return the constants of units that no weight makes (`unit_mask`), NaN for all others.

    Other units may have been constant only on the images of the trace.
    """
    return torch.where(slot.marked(unit_mask), value, torch.nan)


def keep_carriers(
    model: nn.Module, channels: Channels, removed: Tensor, constant: Constants
) -> Tensor:
    """Keep the units that carry constants through zero padding."""
    removed = removed.clone()
    for slot in _padded(channels):
        positions = _folded_positions(model, slot, channels, removed, constant)
        if len(positions) and not _carrier_positions(slot, removed, constant):
            value = constant[slot.name, slot.dim][positions].abs()
            removed[slot.units[positions[value.argmax()]]] = False
    return removed


def fold(model: nn.Module, channels: Channels, removed: Tensor, constant: Constants) -> int:
    """Move constants to a bias or to a carrier channel, in place; return the number of carrier channels."""
    carriers = set()
    padded = {(slot.name, slot.dim) for slot in _padded(channels)}
    for slot in channels.readers():
        positions = _folded_positions(model, slot, channels, removed, constant)
        value = constant[slot.name, slot.dim]
        if len(positions) and (slot.name, slot.dim) in padded:
            at = _carrier_positions(slot, removed, constant)[0]
            _carry(model.get_parameter(slot.name), slot.dim, positions, at, value)
            carriers.add(int(slot.units[at]))
        elif len(positions):
            _to_bias(model, slot, positions, value)
    return len(carriers)


def new_biases(model: nn.Module, channels: Channels) -> list[Slot]:
    """Return the slots of biases that folding created; they have the units of the weights beside them."""
    known = {slot.name for slot in channels.slots}
    named = {s: _bias_name(model, s.name) for s in channels.makers}
    parameters = dict(model.named_parameters())
    return [
        Slot(bias, 0, slot.units)
        for slot, bias in named.items()
        if bias is not None and bias in parameters and bias not in known
    ]


def _carry(weight: nn.Parameter, dim: int, positions: Tensor, at: int, value: Tensor) -> None:
    """Let the channel at position `at` carry the constants of other positions, in place."""
    share = (value[positions] / value[at]).to(weight)
    moved = weight.index_select(dim, positions.to(weight.device)).movedim(dim, -1) @ share
    weight.select(dim, at).add_(moved)


def _to_bias(model: nn.Module, slot: Slot, positions: Tensor, value: Tensor) -> None:
    """Add constants to the bias of the layer that reads them, in place."""
    weight = model.get_parameter(slot.name)
    name = _bias_name(model, slot.name)
    if name is None:  # only zeros read the constants
        return
    moved = weight.index_select(slot.dim, positions.to(weight.device)).movedim(slot.dim, -1)
    moved = (moved @ value[positions].to(weight)).reshape(moved.shape[0], -1).sum(1)
    path, _, leaf = name.rpartition(".")
    owner = model.get_submodule(path)
    if getattr(owner, leaf) is None:
        setattr(owner, leaf, nn.Parameter(torch.zeros_like(moved), weight.requires_grad))
    getattr(owner, leaf).add_(moved)


def _padded(channels: Channels) -> list[Slot]:
    """Return the slots of convolutions that read units through zero padding."""
    padded = {(r.weight, r.dim) for r in channels.readings if r.padded}
    return [slot for slot in channels.readers() if (slot.name, slot.dim) in padded]


def _folded_positions(
    model: nn.Module, slot: Slot, channels: Channels, removed: Tensor, constant: Constants
) -> Tensor:
    """Return the positions of removed units with a constant that is not 0 and is read."""
    size = model.get_parameter(slot.name).detach().abs().cpu()
    for other in channels.slots:
        if other.name == slot.name and other.dim != slot.dim:
            size = size.index_fill(other.dim, other.at(removed), 0.0)
    read = size.movedim(slot.dim, 0).flatten(1).amax(1) > 0
    value = constant[slot.name, slot.dim].nan_to_num(0.0)
    return (slot.marked(removed) & read & (value != 0)).nonzero().squeeze(1)


def _carrier_positions(slot: Slot, removed: Tensor, constant: Constants) -> list[int]:
    """Return the positions of constants that are kept, the largest first."""
    value = constant[slot.name, slot.dim].nan_to_num(0.0).abs()
    stays = ~slot.marked(removed) & (value > 0)
    order = torch.argsort(value, descending=True).tolist()
    return [at for at in order if bool(stays[at])]


def _bias_name(model: nn.Module, weight: str) -> str | None:
    """Return the name of the bias beside a weight, if the layer has or could have one."""
    path, _, leaf = weight.rpartition(".")
    owner = model.get_submodule(path)
    if leaf == "weight" and isinstance(owner, (nn.Linear, *CONVS, *CONVS_T)):
        return f"{path}.bias".lstrip(".")
    if leaf == "in_proj_weight" and getattr(owner, "in_proj_bias", None) is not None:
        return f"{path}.in_proj_bias".lstrip(".")
    return None
