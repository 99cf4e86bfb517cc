"""Masks on whole channels: one logit a unit, shared by all parameters that the unit shows in."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from ... import noise
from ...errors import MaskError
from ..layers import NamedMask, SharedMask
from ..multiply_adds import uses
from ..verbs import selected, weights
from .cost import unit_costs
from .slim import removable
from .units import Channels


class Gate(NamedMask):
    """The logits of a group of units, and what they decide."""

    def __init__(self, name: str, members: Tensor, channels: Channels, **how: Any):
        super().__init__(torch.ones(len(members)), **how)
        self.name, self.members, self.channels = name, members, channels


class ChannelMask(SharedMask):
    """A parametrization that multiplies a parameter by the masks of the units along one dimension.

    `gate` holds one logit a unit and is shared by all parameters those units show in; `units` says which
    unit is where along the dimension, and -1 where there is none.
    """

    gate: Gate
    ones: Tensor
    units: Tensor

    def __init__(self, gate: Gate, units: Tensor, dim: int):
        super().__init__()
        self.gate, self.dim = gate, dim
        count = len(gate.logits)
        self.whole = units.tolist() == list(range(count))
        self.register_buffer("ones", torch.ones_like(gate.logits.detach()), persistent=False)
        self.register_buffer("units", torch.where(units < 0, count, units), persistent=False)

    def forward(self, weight: Tensor) -> Tensor:
        mask: Tensor = self.gate(self.ones)
        if not self.whole:
            mask = torch.cat([mask, self.ones[:1]]).index_select(0, self.units)
        shape = [-1 if dim == self.dim else 1 for dim in range(weight.dim())]
        return weight * mask.reshape(shape).to(weight.dtype)

    def decision(self, model: nn.Module) -> Tensor:
        keep = torch.ones(self.gate.channels.count, dtype=torch.bool)
        for module in model.modules():
            if isinstance(module, Gate):
                keep[module.members] = module.keep().cpu()
        return keep

    def masks(self, model: nn.Module, keep: Tensor) -> dict[str, Tensor]:
        return of_units(model, self.gate.channels, keep)


def of_units(model: nn.Module, channels: Channels, keep: Tensor) -> dict[str, Tensor]:
    """Masks on all parameters that leave only these units of a network."""
    masks: dict[str, Tensor] = {}
    parameters = dict(model.named_parameters())
    for slot in channels.slots:
        if slot.name in parameters:
            shape = parameters[slot.name].shape
            kept = keep[slot.units.clamp(min=0)] | (slot.units < 0)
            along = kept.reshape([-1 if d == slot.dim else 1 for d in range(len(shape))])
            whole = torch.ones(shape, dtype=torch.bool)
            masks[slot.name] = masks.get(slot.name, whole) & along
    return masks


def attach_channels(
    model: nn.Module, example: Tensor, *, count_macs: bool = False, **how: Any
) -> list[str]:
    """Put learned masks on all channels that can be removed, in place; return the masked weights' names.

    `example` is a few images as network input. The pressure to be sparse counts weights, or multiply–adds.
    """
    selected(model, lambda full, module, name, tensor: weights(module, name, tensor))  # or an error
    channels = removable(model, example)
    if not channels.count:
        reasons = "; ".join(f"{name}: {why}" for name, why in channels.kept.items())
        raise MaskError(f"the model has no channels that can be removed ({reasons}).")
    cost = _unit_cost(model, channels, example if count_macs else None)
    gate_of = torch.full((channels.count,), -1)
    gates = []
    for order, (name, members) in enumerate(channels.groups.items()):
        gate = Gate(name, members, channels, stream=noise.FIRST_WEIGHT + order, **how)
        gate.cost = cost[members].float()
        gate_of[members] = order
        gates.append(gate)
    names = []
    for slot in channels.gates:
        for order in torch.unique(gate_of[slot.units[slot.units >= 0]]).tolist():
            names.append(slot.name)
            _gate(model, slot.name, slot.dim, slot.units, gates[order])
    return list(dict.fromkeys(names))


def _gate(model: nn.Module, name: str, dim: int, units: Tensor, gate: Gate) -> None:
    """Let one gate open and close its units in a parameter, in place."""
    place = torch.full((gate.channels.count + 1,), -1)  # the last is that of no unit
    place[gate.members] = torch.arange(len(gate.members))
    path, _, parameter = name.rpartition(".")
    owner = model.get_submodule(path)
    mask = ChannelMask(gate, place[units], dim)
    mask.train(owner.training)
    parametrize.register_parametrization(owner, parameter, mask, unsafe=True)


def _unit_cost(model: nn.Module, channels: Channels, example: Tensor | None) -> Tensor:
    """What units count: their weights, or multiply–adds on the same scale."""
    shapes = {name: p.shape for name, p in model.named_parameters()}
    size = unit_costs(channels, shapes)
    if example is None:
        return size
    work = unit_costs(channels, shapes, uses(model, example, [s.name for s in channels.slots]))
    return work * size.sum() / work.sum()
