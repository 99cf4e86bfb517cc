"""Masks on whole channels: one logit for each unit, shared by all parameters in which the unit occurs."""

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
from .units import Channels, Slot


class Gate(NamedMask):
    """The mask of a group of units: one logit for each unit."""

    def __init__(self, name: str, members: Tensor, channels: Channels, **options: Any):
        super().__init__(torch.ones(len(members)), **options)
        self.name, self.members, self.channels = name, members, channels


class ChannelMask(SharedMask):
    """A parametrization that multiplies a parameter by the masks of the units along one dimension.

    `gate` holds one logit for each unit and is shared by all parameters in which these units occur; `units`
    holds the unit at each position along the dimension, and -1 where there is none.
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
        return unit_masks(model, self.gate.channels, keep)


def unit_masks(model: nn.Module, channels: Channels, keep: Tensor) -> dict[str, Tensor]:
    """Return masks on the parameters of a network that keep only the units marked in `keep`."""
    masks: dict[str, Tensor] = {}
    parameters = dict(model.named_parameters())
    for slot in channels.slots:
        if slot.name in parameters:
            shape = parameters[slot.name].shape
            left = slot.left(keep)
            along = left.reshape([-1 if d == slot.dim else 1 for d in range(len(shape))])
            whole = torch.ones(shape, dtype=torch.bool)
            masks[slot.name] = masks.get(slot.name, whole) & along
    return masks


def attach_channels(
    model: nn.Module, example: Tensor, *, count_macs: bool = False, **options: Any
) -> list[str]:
    """Attach learned masks to all removable channels, in place; return the names of the masked weights.

    `example` is a few images as network input. With `count_macs` the sparsity loss counts multiply–adds
    instead of weights.
    """
    # Raises an error if a weight cannot be masked.
    selected(model, lambda full, module, name, tensor: weights(module, name, tensor))
    channels = removable(model, example)
    if not channels.count:
        reasons = "; ".join(f"{name}: {why}" for name, why in channels.unremovable.items())
        raise MaskError(f"the model has no channels that can be removed ({reasons}).")
    gates = _gates(
        channels, _unit_costs(model, channels, example if count_macs else None), **options
    )
    gate_of = torch.full((channels.count,), -1)
    for order, gate in enumerate(gates):
        gate_of[gate.members] = order
    for slot in channels.gates:
        for order in torch.unique(gate_of[slot.units[slot.occupied]]).tolist():
            _attach_gate(model, slot, gates[order])
    return list(dict.fromkeys(slot.name for slot in channels.gates))


def _gates(channels: Channels, costs: Tensor, **options: Any) -> list[Gate]:
    """Build one gate for each group of units."""
    gates = []
    for order, (name, members) in enumerate(channels.groups.items()):
        gate = Gate(name, members, channels, stream=noise.FIRST_WEIGHT + order, **options)
        gate.cost = costs[members].float()
        gates.append(gate)
    return gates


def _attach_gate(model: nn.Module, slot: Slot, gate: Gate) -> None:
    """Multiply a parameter by a gate's masks along the dimension of a slot, in place."""
    # The last entry is for positions without a unit.
    place = torch.full((gate.channels.count + 1,), -1)
    place[gate.members] = torch.arange(len(gate.members))
    path, _, parameter = slot.name.rpartition(".")
    owner = model.get_submodule(path)
    mask = ChannelMask(gate, place[slot.units], slot.dim)
    mask.train(owner.training)
    parametrize.register_parametrization(owner, parameter, mask, unsafe=True)


def _unit_costs(model: nn.Module, channels: Channels, example: Tensor | None) -> Tensor:
    """Return the number of weights of each unit, or its multiply–adds on the same scale."""
    shapes = {name: p.shape for name, p in model.named_parameters()}
    size = unit_costs(channels, shapes)
    if example is None:
        return size
    work = unit_costs(channels, shapes, uses(model, example, [s.name for s in channels.slots]))
    return work * size.sum() / work.sum()
