"""Rules for pointwise operations, normalisations and reductions."""

from __future__ import annotations

import torch
from torch import Tensor

from .numbering import FREE, varying
from .operations import Call
from .record import ParameterPart
from .trace_state import TraceState


def pointwise(state: TraceState, call: Call) -> None:
    """Merge the channels that meet at an entry; freeze a channel that is broadcast over several others."""
    labelled = [t for t in call.tensors if t in state.ids]
    if not labelled:
        return  # parameters only: the result is unknown, so an operation that reads it freezes its input
    out = call.outs[0]
    ids = state.ids[labelled[0]].expand(out.shape)
    for other in labelled[1:]:
        ids = _meet(state, call.name, (labelled[0], ids), other, out.shape)
    for other in call.tensors:
        if other not in state.ids and other.numel() > 1 and not _broadcasts(other.shape, ids):
            _bind_entries(state, other, ids, call.name)
    state.ids[out] = ids


def _meet(
    state: TraceState, name: str, first: tuple[Tensor, Tensor], other: Tensor, shape: torch.Size
) -> Tensor:
    """Return the channels of the result after the channels of `other` met those of the first tensor."""
    tensor, so_far = first
    ids: Tensor = state.ids[other].expand(shape)
    if _broadcasts(other.shape, so_far):
        state.freeze(ids, name)
        return so_far
    if tensor is not other and _broadcasts(tensor.shape, ids):
        state.freeze(so_far, name)
        return ids
    return state.record.numbers.merge(so_far, ids, state.reason(name)).expand(shape)


def _broadcasts(shape: torch.Size, ids: Tensor) -> bool:
    """Return whether a tensor of this shape is broadcast along all dimensions in which channels differ."""
    shape = torch.Size([1] * (ids.dim() - len(shape)) + list(shape))
    dims = varying(ids)
    return bool(dims) and all(shape[d] == 1 for d in dims)


def _bind_entries(state: TraceState, tensor: Tensor, ids: Tensor, name: str) -> None:
    """Give a parameter the channels of the activations that it is combined with, entry by entry."""
    if tensor not in state.parts:
        state.freeze(ids, name)
        return
    part: ParameterPart = state.parts[tensor]
    index = part.index.expand(ids.shape)
    ids, index = ids.reshape(-1), index.reshape(-1)
    ids, index = ids[ids != FREE], index[ids != FREE]
    for dim in reversed(range(len(part.shape))):
        channels = torch.full((part.shape[dim],), FREE)
        at = ParameterPart(part.name, part.shape, index).along(dim)
        channels[at] = ids
        if torch.equal(channels[at], ids):  # one channel for each position along this dimension
            state.bind(part.name, dim, channels)
            return
    state.freeze(ids, name)


def batch_norm(state: TraceState, call: Call) -> None:
    """Keep the channels, and note which weight makes them."""
    ids = state.columns(call.args[0], 1)
    for tensor in call.args[1:5]:
        state.vector(tensor, ids)
    scale = call.args[1] if isinstance(call.args[1], Tensor) else None
    outputs = state.record.outputs.items()
    maker = next((name for (name, _), new in outputs if torch.equal(new, ids)), None)
    if scale is not None and scale in state.parts and maker is not None:
        state.record.batch_norms.setdefault(maker, state.parts[scale].name)
    state.ids[call.outs[0]] = state.ids[call.args[0]]


def normalise(state: TraceState, call: Call) -> None:
    """Freeze the channels that are averaged over (layer norm, group norm)."""
    state.freeze(state.ids[call.args[0]], "a normalisation over channels")
    state.ids[call.outs[0]] = state.ids[call.args[0]]


def softmax(state: TraceState, call: Call) -> None:
    """Freeze the channels if softmax runs over them."""
    ids = state.ids[call.args[0]]
    if call.args[1] % ids.dim() in varying(ids):
        state.freeze(ids, call.name)
    state.ids[call.out] = ids


def reduce(state: TraceState, call: Call) -> None:
    """Keep the channels; freeze those that are averaged over once an operation uses the result."""
    ids = state.ids[call.args[0]]
    dims = _reduced(call, ids.dim())
    over_channels = bool(set(dims) & set(varying(ids))) and _mixes(ids, dims)
    pending = (ids, state.reason(call.name))
    for dim in sorted(dims, reverse=True):
        ids = ids.amax(dim, keepdim=True)
    for out in call.outs:
        if isinstance(out, Tensor):
            state.ids[out] = ids.reshape(out.shape)
            if over_channels:
                state.pending[out] = pending


def _mixes(ids: Tensor, dims: list[int]) -> bool:
    """Return whether several channels meet along some dimensions; padding, which is FREE, does not count."""
    last = int(ids.max())
    low = torch.where(ids == FREE, last, ids).amin(dims)
    return bool(((low != ids.amax(dims)) & (ids.amax(dims) != FREE)).any())


def _reduced(call: Call, count: int) -> list[int]:
    """Return the dimensions that a reduction runs over: those among its arguments, or all."""
    arguments = (a for a in call.args[1:] if isinstance(a, (int, list, tuple)))
    dims = next(arguments, call.kwargs.get("dim"))
    dims = [dims] if isinstance(dims, int) else dims
    return [d % count for d in (dims if dims else range(count))]
