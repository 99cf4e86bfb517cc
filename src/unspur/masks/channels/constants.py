"""Fold the constants that dead units leave behind into the layers that read them.

A unit that nothing makes may still be a constant, from a bias or from batch norm. The constant is added to
the bias of the layer that reads it. Before zero padding this would be wrong at the border: there one
constant channel stays and carries all the others (a convolution is linear, so this is exact).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ..verbs import CONVS, CONVS_T
from .record import Dimension
from .units import Channels, Slot

# By weight and dimension, the constant that is read at each position; NaN for none.
Constants = Mapping[Dimension, Tensor]


def constants(channels: Channels) -> dict[Dimension, Tensor]:
    """Return the constant that each weight reads at each position, NaN where the values differ.

    Of a weight that is used twice, only constants that are 0 both times count.
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
    """Return the units whose readers could absorb them, if they are the constants that were measured."""
    can = torch.ones(channels.count, dtype=torch.bool)
    for slot in channels.readers():
        value = constant[slot.name, slot.dim]
        unread = size[slot.name].movedim(slot.dim, 0).flatten(1).amax(1) == 0
        takes = _bias_name(model, slot.name) is not None
        good = unread | (value == 0) | (~value.isnan() & takes)
        can[slot.units[slot.there & ~good]] = False
    return can


def of_unmade(slot: Slot, unmade: Tensor, value: Tensor) -> Tensor:
    """Return the constants of units that nothing makes; others may have been constant by chance."""
    return torch.where(slot.marked(unmade), value, torch.nan)


def keep_carriers(
    model: nn.Module, channels: Channels, gone: Tensor, constant: Constants
) -> Tensor:
    """Keep the units that carry constants through zero padding."""
    gone = gone.clone()
    for slot in _padded(channels):
        there = _carried(model, slot, channels, gone, constant)
        if len(there) and not _carrying(slot, gone, constant):
            value = constant[slot.name, slot.dim][there].abs()
            gone[slot.units[there[value.argmax()]]] = False
    return gone


def fold(model: nn.Module, channels: Channels, gone: Tensor, constant: Constants) -> int:
    """Move constants to a bias or to the channel that carries them, in place; return how many carry."""
    carriers = set()
    padded = {(slot.name, slot.dim) for slot in _padded(channels)}
    for slot in channels.readers():
        there = _carried(model, slot, channels, gone, constant)
        value = constant[slot.name, slot.dim]
        if len(there) and (slot.name, slot.dim) in padded:
            at = _carrying(slot, gone, constant)[0]
            _carry(model.get_parameter(slot.name), slot.dim, there, at, value)
            carriers.add(int(slot.units[at]))
        elif len(there):
            _to_bias(model, slot, there, value)
    return len(carriers)


def new_biases(model: nn.Module, channels: Channels) -> list[Slot]:
    """Return the slots of biases that folding created: as those of the weights beside them."""
    known = {slot.name for slot in channels.slots}
    named = {s: _bias_name(model, s.name) for s in channels.makers}
    there = dict(model.named_parameters())
    return [
        Slot(bias, 0, slot.units)
        for slot, bias in named.items()
        if bias is not None and bias in there and bias not in known
    ]


def _carry(weight: nn.Parameter, dim: int, there: Tensor, at: int, value: Tensor) -> None:
    """Let the channel at one position carry the constants at others, in place."""
    share = (value[there] / value[at]).to(weight)
    moved = weight.index_select(dim, there.to(weight.device)).movedim(dim, -1) @ share
    weight.select(dim, at).add_(moved)


def _to_bias(model: nn.Module, slot: Slot, there: Tensor, value: Tensor) -> None:
    """Add constants to the bias of the layer that reads them, in place."""
    weight = model.get_parameter(slot.name)
    name = _bias_name(model, slot.name)
    if name is None:  # only zeros read the constants
        return
    moved = weight.index_select(slot.dim, there.to(weight.device)).movedim(slot.dim, -1)
    moved = (moved @ value[there].to(weight)).reshape(moved.shape[0], -1).sum(1)
    path, _, leaf = name.rpartition(".")
    owner = model.get_submodule(path)
    if getattr(owner, leaf) is None:
        setattr(owner, leaf, nn.Parameter(torch.zeros_like(moved), weight.requires_grad))
    getattr(owner, leaf).add_(moved)


def _padded(channels: Channels) -> list[Slot]:
    """Return the slots of convolutions that read units through zero padding."""
    padded = {(r.weight, r.dim) for r in channels.readings if r.padded}
    return [slot for slot in channels.readers() if (slot.name, slot.dim) in padded]


def _carried(
    model: nn.Module, slot: Slot, channels: Channels, gone: Tensor, constant: Constants
) -> Tensor:
    """Return the positions of constants that are removed, are not 0 and are read."""
    size = model.get_parameter(slot.name).detach().abs().cpu()
    for other in channels.slots:
        if other.name == slot.name and other.dim != slot.dim:
            size = size.index_fill(other.dim, other.at(gone), 0.0)
    read = size.movedim(slot.dim, 0).flatten(1).amax(1) > 0
    value = constant[slot.name, slot.dim].nan_to_num(0.0)
    return (slot.marked(gone) & read & (value != 0)).nonzero().squeeze(1)


def _carrying(slot: Slot, gone: Tensor, constant: Constants) -> list[int]:
    """Return the positions of constants that stay, the largest first."""
    value = constant[slot.name, slot.dim].nan_to_num(0.0).abs()
    stays = ~slot.marked(gone) & (value > 0)
    order = torch.argsort(value, descending=True).tolist()
    return [at for at in order if bool(stays[at])]


def _bias_name(model: nn.Module, weight: str) -> str | None:
    """Return the name of the bias beside a weight, which the layer has or could have."""
    path, _, leaf = weight.rpartition(".")
    owner = model.get_submodule(path)
    if leaf == "weight" and isinstance(owner, (nn.Linear, *CONVS, *CONVS_T)):
        return f"{path}.bias".lstrip(".")
    if leaf == "in_proj_weight" and getattr(owner, "in_proj_bias", None) is not None:
        return f"{path}.in_proj_bias".lstrip(".")
    return None
