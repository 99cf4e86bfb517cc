"""Rules for products: convolutions and linear layers read channels and make new ones; attention has heads."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .operations import Call
from .record import ParameterPart
from .trace_state import TraceState

Side = tuple[int, Tensor]  # a dimension of a matrix, and positions along it


def convolution(state: TraceState, call: Call) -> None:
    """Read channels and make new ones; a depthwise convolution keeps its channels."""
    weight, bias = call.args[1:3]
    part = state.parts.get(weight)
    if part is None or part.index.shape != part.shape:
        state.freeze_all(call)
        return
    ids = _convolved(state, call, part)
    state.vector(bias, ids)
    ones = [1] * (call.out.dim() - 2)
    state.ids[call.out] = ids.reshape(1, -1, *ones).expand(call.out.shape)


def _convolved(state: TraceState, call: Call, part: ParameterPart) -> Tensor:
    """Return the channels that a convolution makes."""
    x, _, _, _, padding, _, transposed, _, groups = call.args
    if groups == 1:
        # A transposed convolution spreads a constant unevenly, as padding does at the border.
        uneven = transposed or any(p > 0 for p in padding)
        state.read(part.name, 0 if transposed else 1, x, uneven)
        return state.make(part, 1 if transposed else 0)
    if groups == x.shape[1] == call.out.shape[1]:
        ids = state.columns(x, 1)
        state.bind(part.name, 0, ids)
        return ids
    state.freeze(state.ids[x], "a convolution in groups")
    ids = state.make(part, 0)
    state.freeze(ids, "a convolution in groups")
    return ids


def linear(state: TraceState, call: Call) -> None:
    """Read channels and make new ones by a product with a matrix, which must be a parameter."""
    x, weight, bias = _operands(call)
    if not _product(state, x, weight, bias, call.name == "linear", call.out):
        state.freeze_all(call)


def _operands(call: Call) -> tuple[Any, Any, Any]:
    """Return the input, the matrix and the bias of a product."""
    if call.name == "addmm":
        bias, x, weight = call.args
        return x, weight, bias
    x, weight, bias = (*call.args, None)[:3]
    return x, weight, bias


def _product(
    state: TraceState, x: Tensor, weight: Tensor, bias: Tensor | None, rows: bool, out: Tensor
) -> bool:
    """Trace the product of an activation and a parameter, or a part of one; return False if it is none.

    `rows`: each row of the matrix makes one channel, as in a linear layer.
    """
    part = state.parts.get(weight)
    if part is None or x not in state.ids:
        return False
    if part.index.dim() == 3 and bool((part.index == part.index[:1]).all()):
        part = ParameterPart(part.name, part.shape, part.index[0])  # repeated for every image
    if (sides := _sides(part, rows)) is None:
        return False
    (read_dim, read_at), (make_dim, make_at) = sides
    ids = state.make(part, make_dim)[make_at]
    state.read(part.name, read_dim, x, False, read_at)
    if bias is not None and bias not in state.parts:
        state.freeze(ids, "a computed bias")
    state.vector(bias, ids)
    state.ids[out] = ids.expand(out.shape)
    return True


def _sides(part: ParameterPart, rows: bool) -> tuple[Side, Side] | None:
    """Return (dimension, positions) of the channels that a matrix reads, and of those that it makes."""
    if len(part.shape) != 2 or part.index.dim() != 2:
        return None
    index = part.index.T if rows else part.index  # (channels read, channels made)
    used = ParameterPart(part.name, part.shape, index)
    first, second = used.along(0), used.along(1)
    if bool((first == first[:1]).all()) and bool((second == second[:, :1]).all()):
        return (1, second[:, 0]), (0, first[0])
    if bool((first == first[:, :1]).all()) and bool((second == second[:1]).all()):
        return (0, first[:, 0]), (1, second[0])
    return None


def attend(state: TraceState, call: Call) -> None:
    """Merge all channels of an attention head into one unit."""
    out = call.outs[0]
    if call.name == "bmm" and _product(state, call.args[0], call.args[1], None, False, out):
        return
    if any(t in state.parts for t in call.tensors):
        state.freeze_all(call)
        return
    slices = math.prod(out.shape[:-2])
    operands = [t for t in call.tensors if t in state.ids and t.dim() == out.dim() > 2]
    rows = [state.ids[t].reshape(slices, -1) for t in operands if t.numel()]
    why = state.reason(call.name)
    merge_all = state.record.numbers.merge_all
    heads = [merge_all(torch.cat(row), why) for row in zip(*rows, strict=True)]
    ids = torch.tensor(heads).reshape(*out.shape[:-2], 1, 1)
    state.ids[out] = ids.expand(out.shape)
    state.record.heads[state.modules[-1]] = torch.tensor(list(dict.fromkeys(heads)))
