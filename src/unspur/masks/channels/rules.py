"""What single operations of torch do to the channels they meet: one rule for each kind.

A rule gets one call of an operation and sets the numbers of its output. On the way it notes which
parameters make, read or accompany the channels, and which of these must stay.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from . import operations
from .numbering import FIXED, FREE, varying
from .record import Place, Trail


@dataclass(frozen=True)
class Call:
    """One call of an operation: its name, what went in, all tensors among that, and what came out."""

    name: str
    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tensors: list[Tensor]
    out: Any


Rule = Callable[[Trail, Call], None]


def rule(call: Call) -> Rule:
    """The rule for an operation: by its name, or because torch calls it pointwise."""
    other = _pointwise if torch.Tag.pointwise in call.func.tags else unknown
    return RULES.get(call.name, other)


def _move(trail: Trail, call: Call) -> None:
    """The numbers go where the entries go; a part of a parameter remains a part of it."""
    if all(t in trail.places for t in call.tensors) and len(call.tensors) == 1:
        place = trail.places[call.tensors[0]]
        moved = _moved(call, lambda t: place.index)
        for part, index in zip(_list(call.out), _list(moved), strict=True):
            trail.places[part] = Place(place.name, place.shape, index)
        return
    moved = _moved(call, trail.numbers)
    for part, ids in zip(_list(call.out), _list(moved), strict=True):
        trail.ids[part] = ids


def _moved(call: Call, shadow: Callable[[Tensor], Tensor]) -> Any:
    if call.name == "index":  # the positions asked for are no channels
        return call.func(shadow(call.args[0]), *call.args[1:], **call.kwargs)
    args = tree_map(lambda t: shadow(t) if isinstance(t, Tensor) else t, call.args)
    if call.name in ("view", "_unsafe_view", "reshape", "_reshape_alias"):
        return args[0].reshape(args[1])
    return call.func(*args, **call.kwargs)


def _copy(trail: Trail, call: Call) -> None:
    """The same entries, so the same channels; a copy of a parameter counts as it."""
    if call.args[0] in trail.places:
        trail.places[_list(call.out)[0]] = trail.places[call.args[0]]
    else:
        trail.ids[_list(call.out)[0]] = trail.ids[call.args[0]]


def _pad(trail: Trail, call: Call) -> None:
    """What is put around activations belongs to no channel."""
    trail.ids[call.out] = call.func(trail.numbers(call.args[0]).contiguous(), call.args[1], FREE)


def _pointwise(trail: Trail, call: Call) -> None:
    """Channels that meet are merged; one repeated over many others must stay."""
    out = _list(call.out)[0]
    labelled = [t for t in call.tensors if t in trail.ids]
    if not labelled:
        return  # parameters alone; whoever reads the result finds nothing known, and is careful
    lead = trail.ids[labelled[0]].expand(out.shape)
    for other in labelled[1:]:
        ids = trail.ids[other].expand(out.shape)
        if _thin(other.shape, lead):
            trail.freeze(ids, call.name)
        elif labelled[0] is not other and _thin(labelled[0].shape, ids):
            trail.freeze(lead, call.name)
            lead = ids
        else:
            lead = trail.seen.ledger.merge(lead, ids, trail.why(call.name)).expand(out.shape)
    for other in call.tensors:
        if other not in trail.ids and other.numel() > 1 and not _thin(other.shape, lead):
            _beside(trail, other, lead, call.name)
    trail.ids[out] = lead


def _beside(trail: Trail, tensor: Tensor, ids: Tensor, name: str) -> None:
    """A parameter meets activations entry by entry: it has their channels."""
    if tensor not in trail.places:
        trail.freeze(ids, name)
        return
    place: Place = trail.places[tensor]
    index = place.index.expand(ids.shape)
    ids, index = ids.reshape(-1), index.reshape(-1)
    ids, index = ids[ids != FREE], index[ids != FREE]
    for dim in reversed(range(len(place.shape))):
        found = torch.full((place.shape[dim],), FREE)
        at = Place(place.name, place.shape, index).along(dim)
        found[at] = ids
        if torch.equal(found[at], ids):
            trail.bind(place.name, dim, found)
            return
    trail.freeze(ids, name)


def _convolution(trail: Trail, call: Call) -> None:
    """Reads channels and makes new ones; one for each channel keeps them."""
    x, weight, bias, _, padding, _, transposed, _, groups = call.args
    place = trail.places.get(weight)
    if place is None or place.index.shape != place.shape:
        unknown(trail, call)
        return
    spread = (1, -1, *[1] * (call.out.dim() - 2))
    if groups == 1:
        # A transposed convolution spreads a constant unevenly, as padding does at the border.
        uneven = transposed or any(p > 0 for p in padding)
        trail.read(place.name, 0 if transposed else 1, x, uneven)
        ids = trail.make(place, 1 if transposed else 0)
    elif groups == x.shape[1] == call.out.shape[1]:
        ids = trail.columns(x, 1)
        trail.bind(place.name, 0, ids)
    else:
        trail.freeze(trail.ids[x], "a convolution in groups")
        ids = trail.make(place, 0)
        trail.freeze(ids, "a convolution in groups")
    trail.vector(bias, ids)
    trail.ids[call.out] = ids.reshape(spread).expand(call.out.shape)


def _linear(trail: Trail, call: Call) -> None:
    """A product with a matrix, which must be a parameter."""
    if call.name == "addmm":
        bias, x, weight = call.args
    elif call.name == "linear":
        x, weight, bias = (*call.args, None)[:3]
    else:
        (x, weight), bias = call.args, None
    if not _product(trail, x, weight, bias, call.name == "linear", call.out):
        unknown(trail, call)


def _product(
    trail: Trail, x: Tensor, weight: Tensor, bias: Tensor | None, rows: bool, out: Tensor
) -> bool:
    """An activation times a matrix that is a parameter, or a part of one; whether it is that."""
    place = trail.places.get(weight)
    if place is None or x not in trail.ids:
        return False
    if place.index.dim() == 3 and bool((place.index == place.index[:1]).all()):
        place = Place(place.name, place.shape, place.index[0])  # repeated for every image
    if (sides := _sides(place, rows)) is None:
        return False
    (into, read_at), (from_, made_at) = sides
    ids = trail.make(place, from_)[made_at]
    trail.read(place.name, into, x, False, read_at)
    if bias is not None and bias not in trail.places:
        trail.freeze(ids, "a computed bias")
    trail.vector(bias, ids)
    trail.ids[out] = ids.expand(out.shape)
    return True


def _batch_norm(trail: Trail, call: Call) -> None:
    """Channels stay what they are; the weight that makes them is noted with its batch norm."""
    ids = trail.columns(call.args[0], 1)
    for tensor in call.args[1:5]:
        trail.vector(tensor, ids)
    weight = call.args[1] if isinstance(call.args[1], Tensor) else None
    maker = next((n for (n, _), made in trail.seen.made.items() if torch.equal(made, ids)), None)
    if weight is not None and weight in trail.places and maker is not None:
        trail.seen.after.setdefault(maker, trail.places[weight].name)
    trail.ids[_list(call.out)[0]] = trail.ids[call.args[0]]


def _pool(trail: Trail, call: Call) -> None:
    """Works within each channel, over the dimensions behind it."""
    out = _list(call.out)[0]
    spatial = 1 if call.name.endswith("1d") else 3 if call.name.endswith("3d") else 2
    axis = call.args[0].dim() - spatial - 1
    ids = trail.columns(call.args[0], axis)
    trail.ids[out] = ids.reshape(-1, *[1] * spatial).expand(out.shape)


def _reduce(trail: Trail, call: Call) -> None:
    """What is averaged over must not depend on how many channels there are."""
    ids = trail.ids[call.args[0]]
    outs = [t for t in _list(call.out) if isinstance(t, Tensor)]
    dims = next(
        (a for a in call.args[1:] if isinstance(a, (int, list, tuple))), call.kwargs.get("dim")
    )
    dims = [dims] if isinstance(dims, int) else dims
    dims = [d % ids.dim() for d in (dims if dims else range(ids.dim()))]
    due = (ids, trail.why(call.name)) if set(dims) & set(varying(ids)) else None
    for dim in sorted(dims, reverse=True):
        ids = ids.amax(dim, keepdim=True)
    for each in outs:
        trail.ids[each] = ids.reshape(each.shape)
        if due is not None:
            trail.dues[each] = due


def _softmax(trail: Trail, call: Call) -> None:
    """Where it runs over channels, none of them may go."""
    ids = trail.ids[call.args[0]]
    if call.args[1] % ids.dim() in varying(ids):
        trail.freeze(ids, call.name)
    trail.ids[call.out] = ids


def _attend(trail: Trail, call: Call) -> None:
    """Products of activations by head: a head is one unit, whatever it is made of."""
    out = _list(call.out)[0]
    operands = [t for t in call.tensors if t in trail.ids and t.dim() == out.dim() > 2]
    if call.name == "bmm" and _product(trail, call.args[0], call.args[1], None, False, out):
        return
    if any(t in trail.places for t in call.tensors):
        unknown(trail, call)
        return
    slices = math.prod(out.shape[:-2])
    rows = [trail.ids[t].reshape(slices, -1) for t in operands if t.numel()]
    why = trail.why(call.name)
    numbers = [trail.seen.ledger.merge_all(torch.cat(row), why) for row in zip(*rows, strict=True)]
    heads = torch.tensor(numbers).reshape(*out.shape[:-2], 1, 1)
    trail.ids[out] = heads.expand(out.shape)
    trail.seen.heads[trail.inside[-1]] = torch.tensor(list(dict.fromkeys(numbers)))


def _norm(trail: Trail, call: Call) -> None:
    """Averages over channels, so none of them may go."""
    trail.freeze(trail.ids[call.args[0]], "a normalisation over channels")
    trail.ids[_list(call.out)[0]] = trail.ids[call.args[0]]


def unknown(trail: Trail, call: Call) -> None:
    """All channels that come in must stay, and nothing is known of what comes out."""
    for tensor in call.tensors:
        if tensor in trail.ids:
            trail.freeze(trail.ids[tensor], call.name)
        elif tensor in trail.places and call.name not in ("zeros_like", "ones_like", "empty_like"):
            place = trail.places[tensor]
            for (owner, _), ids in trail.seen.slots.items():
                if owner == place.name:
                    trail.freeze(ids, call.name)
    for each in tree_leaves(call.out):
        if isinstance(each, Tensor):
            trail.ids[each] = torch.full((), FIXED).expand(each.shape)


def _list(out: Any) -> list[Any]:
    return list(out) if isinstance(out, (list, tuple)) else [out]


def _thin(shape: torch.Size, ids: Tensor) -> bool:
    """Whether a tensor of this shape is repeated along all the dimensions in which channels differ."""
    shape = torch.Size([1] * (ids.dim() - len(shape)) + list(shape))
    dims = varying(ids)
    return bool(dims) and all(shape[d] == 1 for d in dims)


def _sides(place: Place, rows: bool) -> tuple[tuple[int, Tensor], tuple[int, Tensor]] | None:
    """For a matrix in a product: (dimension, positions) of what it reads, and of what it makes."""
    if len(place.shape) != 2 or place.index.dim() != 2:
        return None
    index = place.index.T if rows else place.index  # (read, made)
    used = Place(place.name, place.shape, index)
    first, second = used.along(0), used.along(1)
    if bool((first == first[:1]).all()) and bool((second == second[:, :1]).all()):
        return (1, second[:, 0]), (0, first[0])
    if bool((first == first[:, :1]).all()) and bool((second == second[:1]).all()):
        return (0, first[:, 0]), (1, second[0])
    return None


RULES: dict[str, Rule] = {
    **dict.fromkeys(operations.MOVES, _move),
    **dict.fromkeys(operations.COPIES, _copy),
    **dict.fromkeys(operations.POOLS, _pool),
    **dict.fromkeys(operations.REDUCTIONS, _reduce),
    **dict.fromkeys(operations.SOFTMAXES, _softmax),
    **dict.fromkeys(operations.BATCH_NORMS, _batch_norm),
    **dict.fromkeys(operations.ATTENTION, _attend),
    **dict.fromkeys(operations.PRODUCTS, _linear),
    **dict.fromkeys(operations.NORMS, _norm),
    "convolution": _convolution,
    "constant_pad_nd": _pad,
}
