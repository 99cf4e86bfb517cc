"""The state of a trace while the network runs: the channels of every tensor."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

from .numbering import FIXED, FREE, varying
from .operations import Call
from .record import ChannelTrace, ParameterPart, Reading

EMPTY_COPIES = ("zeros_like", "ones_like", "empty_like")  # these read no values


class TraceState:
    """Channels of activations by entry, channels of parameters by dimension, and the running modules."""

    def __init__(self, model: nn.Module):
        self.record = ChannelTrace()
        self.ids: Any = WeakTensorKeyDictionary()  # activations: the channel of each entry
        self.parts: Any = WeakTensorKeyDictionary()  # parameters, buffers, parts of them
        self.pending: Any = WeakTensorKeyDictionary()  # freeze these once a tensor is used
        self.modules: list[str] = []  # the names of the running modules, the innermost last
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            index = torch.arange(tensor.numel()).reshape(tensor.shape)
            self.parts[tensor] = ParameterPart(name, tensor.shape, index)

    def known(self, tensor: Tensor) -> bool:
        """Return whether a tensor has channels, or is a parameter or a part of one."""
        return tensor in self.ids or tensor in self.parts

    def channels_of(self, tensor: Tensor) -> Tensor:
        """Return the channel of each entry; a parameter makes channels along its last dimension."""
        if tensor in self.ids:
            return self.ids[tensor]  # type: ignore[no-any-return]
        if tensor not in self.parts:
            return torch.full((), FREE if tensor.numel() == 1 else FIXED).expand(tensor.shape)
        part = self.parts[tensor]
        dim = max((d for d in range(len(part.shape)) if part.shape[d] > 1), default=0)
        return self.make(part, dim)[part.along(dim)]

    def freeze_pending(self, tensors: list[Tensor]) -> None:
        """Freeze the channels that wait for one of these tensors to be used."""
        for tensor in tensors:
            if tensor in self.pending:
                self.record.numbers.freeze(*self.pending[tensor])

    def reason(self, operation: str) -> str:
        """Return a reason for freezing: the operation, and the module that runs it."""
        where = self.modules[-1] if self.modules and self.modules[-1] else "the model itself"
        return f"{operation} in {where}"

    def freeze(self, ids: Tensor, operation: str) -> None:
        """Mark channels as not removable because of an operation."""
        self.record.numbers.freeze(ids, self.reason(operation))

    def freeze_all(self, call: Call) -> None:
        """Freeze all channels that enter a call; its outputs are FIXED."""
        for tensor in call.tensors:
            if tensor in self.ids:
                self.freeze(self.ids[tensor], call.name)
            elif tensor in self.parts and call.name not in EMPTY_COPIES:
                self._freeze_parameter(self.parts[tensor].name, call.name)
        for each in tree_leaves(call.out):
            if isinstance(each, Tensor):
                self.ids[each] = torch.full((), FIXED).expand(each.shape)

    def _freeze_parameter(self, name: str, operation: str) -> None:
        for (owner, _), ids in self.record.along.items():
            if owner == name:
                self.freeze(ids, operation)

    def columns(self, x: Tensor, dim: int) -> Tensor:
        """Return one channel for each position along a dimension of an activation.

        Channels that share a position are merged.
        """
        ids: Tensor = self.ids[x].movedim(dim, 0)
        first = ids.reshape(len(ids), -1)[:, 0] if ids.numel() else ids
        rest = ids.movedim(0, -1)
        if all(d == rest.dim() - 1 for d in varying(rest)):
            return first.clone()
        why = self.reason("a mixed layout")
        return torch.tensor([self.record.numbers.merge_all(part, why) for part in ids])

    def read(self, name: str, dim: int, x: Tensor, padded: bool, at: Tensor | None = None) -> None:
        """Note that a weight reads the channels of `x` along `dim`, at some positions or at all."""
        axis = 1 if at is None else x.dim() - 1
        ids = self.columns(x, axis)
        low, high = (f(x.movedim(axis, 0).flatten(1), 1) for f in (torch.amin, torch.amax))
        size = len(ids) if at is None else int(at.max()) + 1
        at = torch.arange(size) if at is None else at
        place = torch.full((size,), FREE)
        place[at] = ids
        self.bind(name, dim, place)
        least, most = (torch.zeros(size).index_put((at,), v.float().cpu()) for v in (low, high))
        self.record.readings.append(Reading(name, dim, least, most, padded))

    def make(self, part: ParameterPart, dim: int) -> Tensor:
        """Return the channels that a parameter makes along a dimension: new ones at the first call."""
        key = (part.name, dim)
        if key not in self.record.outputs:
            self.record.outputs[key] = self.record.numbers.new(part.shape[dim])
            self.bind(*key, self.record.outputs[key])
        return self.record.outputs[key]

    def vector(self, tensor: Tensor | None, ids: Tensor) -> None:
        """Note that a bias, a scale or a running mean has one entry for each channel."""
        if tensor is None or tensor not in self.parts:
            return
        part = self.parts[tensor]
        channels = torch.full((math.prod(part.shape),), FREE)
        channels[part.index.reshape(-1)] = ids
        self.bind(part.name, 0, channels)

    def bind(self, name: str, dim: int, ids: Tensor) -> None:
        """Set the channels along a dimension of a parameter, merged with those known before."""
        key = (name, dim)
        before = self.record.along.get(key)
        if before is not None:
            size = max(len(before), len(ids))
            before, ids = _pad(before, size), _pad(ids, size)
            ids = self.record.numbers.merge(before, ids, f"two uses of {name}")
        self.record.along[key] = ids


def _pad(ids: Tensor, size: int) -> Tensor:
    """Extend numbers to `size` positions; the new ones belong to no channel."""
    return torch.cat([ids, torch.full((size - len(ids),), FREE)])
