"""Rules for operations that move, copy, pad or pool entries: channels change position, not identity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_map

from .numbering import FREE
from .operations import Call
from .record import ParameterPart
from .trace_state import TraceState

RESHAPES = ("view", "_unsafe_view", "reshape", "_reshape_alias")


def move(state: TraceState, call: Call) -> None:
    """Apply the operation to the channel numbers; the result of a part of a parameter is a part of it too."""
    if len(call.tensors) == 1 and call.tensors[0] in state.parts:
        part = state.parts[call.tensors[0]]
        moved = _as_list(_repeat(call, lambda t: part.index))
        for out, index in zip(call.outs, moved, strict=True):
            state.parts[out] = ParameterPart(part.name, part.shape, index)
        return
    for out, ids in zip(call.outs, _as_list(_repeat(call, state.channels_of)), strict=True):
        state.ids[out] = ids


def _repeat(call: Call, numbers_of: Callable[[Tensor], Tensor]) -> Any:
    """Repeat a call with the channel numbers of its tensors instead of the tensors."""
    if call.name == "index":  # its other arguments are positions and have no channels
        return call.func(numbers_of(call.args[0]), *call.args[1:], **call.kwargs)
    args = tree_map(lambda t: numbers_of(t) if isinstance(t, Tensor) else t, call.args)
    if call.name in RESHAPES:
        return args[0].reshape(args[1])
    return call.func(*args, **call.kwargs)


def _as_list(out: Any) -> list[Any]:
    return list(out) if isinstance(out, (list, tuple)) else [out]


def copy(state: TraceState, call: Call) -> None:
    """Give the copy the channels of the original; a copy of a parameter counts as the parameter."""
    known = state.parts if call.args[0] in state.parts else state.ids
    known[call.outs[0]] = known[call.args[0]]


def pad(state: TraceState, call: Call) -> None:
    """Surround the numbers with FREE: a padded entry belongs to no channel."""
    ids = state.channels_of(call.args[0]).contiguous()
    state.ids[call.out] = call.func(ids, call.args[1], FREE)


def pool(state: TraceState, call: Call) -> None:
    """Keep the channels: pooling works within each channel, over the dimensions behind it."""
    out = call.outs[0]
    spatial = 1 if call.name.endswith("1d") else 3 if call.name.endswith("3d") else 2
    axis = call.args[0].dim() - spatial - 1
    ids = state.columns(call.args[0], axis)
    state.ids[out] = ids.reshape(-1, *[1] * spatial).expand(out.shape)
