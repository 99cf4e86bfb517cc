"""Follow every channel of a network from the weight that makes it to the weights that read it.

The network runs once, as it is, on a few images. Beside every activation goes a tensor of the same shape
with the number of the channel that each of its entries belongs to. What moves data about (a view, a
concatenation, a split) does the same to the numbers; what works entry by entry (a sum, an activation)
merges the channels it brings together; a convolution or a linear layer reads channels and makes new ones.
Where an operation is none of these, its channels must stay, and the reason is kept. No network and no
layer is known by name; what is known are some eighty operations of torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.weak import WeakTensorKeyDictionary

from ..features import evaluating
from .ledger import FIXED, FREE, Ledger, varying
from .operations import (
    ATTENTION,
    BATCH_NORMS,
    COPIES,
    MOVES,
    NORMS,
    POOLS,
    PRODUCTS,
    REDUCTIONS,
    SOFTMAXES,
)

UNUSUAL = (RuntimeError, ValueError, TypeError, KeyError, IndexError, AttributeError)


@dataclass(frozen=True)
class Reading:
    """What a weight saw of the channels it reads: their least and largest values, and zero padding."""

    weight: str
    dim: int
    low: Tensor
    high: Tensor
    padded: bool


@dataclass
class Place:
    """A tensor that is a parameter or a buffer, or a part of one: positions in it, flat."""

    name: str
    shape: torch.Size
    index: Tensor


@dataclass
class Followed:
    """What was seen: for every dimension of every parameter the channels along it, and how it is used."""

    ledger: Ledger = field(default_factory=Ledger)
    slots: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    made: dict[tuple[str, int], Tensor] = field(
        default_factory=dict
    )  # the slots that make channels
    after: dict[str, str] = field(default_factory=dict)  # batch norm by the weight right before it
    readings: list[Reading] = field(default_factory=list)
    heads: dict[str, Tensor] = field(default_factory=dict)  # by the module that attends


def follow(model: nn.Module, x: Tensor) -> Followed:
    """Run a network on a few images and see where its channels go. The network is not changed."""
    follower = Follower(model)
    with torch.no_grad(), evaluating(model), follower.watching():
        follower.ids[x] = torch.full((), FIXED).expand(x.shape)
        output = model(x)
    outputs = [t for t in tree_leaves(output) if isinstance(t, Tensor)]
    follower._due(outputs)
    for tensor in outputs:
        if tensor in follower.ids:
            follower.seen.ledger.freeze(follower.ids[tensor], "it is an output of the model")
    return follower.seen


class Follower(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operation of a running network."""

    def __init__(self, model: nn.Module):
        super().__init__()  # type: ignore[no-untyped-call]
        self.model = model
        self.seen = Followed()
        self.ids: Any = WeakTensorKeyDictionary()  # activations: the channel of each entry
        self.places: Any = WeakTensorKeyDictionary()  # parameters, buffers, parts of them
        self.dues: Any = WeakTensorKeyDictionary()  # what must stay if anything uses a tensor
        self.inside: list[str] = []
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            index = torch.arange(tensor.numel()).reshape(tensor.shape)
            self.places[tensor] = Place(name, tensor.shape, index)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Follow what runs inside, and know in which module it does."""
        with ExitStack() as stack:
            for name, module in self.model.named_modules():
                enter = module.register_forward_pre_hook(
                    lambda m, args, name=name: self.inside.append(name)
                )
                leave = module.register_forward_hook(lambda m, args, out: self._left())
                stack.callback(enter.remove)
                stack.callback(leave.remove)
            fast = torch.backends.mha.get_fastpath_enabled()
            torch.backends.mha.set_fastpath_enabled(False)
            stack.callback(torch.backends.mha.set_fastpath_enabled, fast)
            stack.enter_context(self)
            yield

    def _left(self) -> None:
        self.inside.pop()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        if any(t in self.ids or t in self.places for t in tensors):
            self._due(tensors)
            with torch.utils._python_dispatch._disable_current_modes():
                try:
                    self._rule(func, name)(name, func, args, kwargs, tensors, out)
                except UNUSUAL:  # a use of it that the rule does not foresee
                    self._unknown(name, func, args, kwargs, tensors, out)
        return out

    def _rule(self, func: Any, name: str) -> Callable[..., None]:
        if name in MOVES:
            return self._move
        if name in RULES:
            return getattr(self, RULES[name])  # type: ignore[no-any-return]
        return self._pointwise if torch.Tag.pointwise in func.tags else self._unknown

    # -- rules: each sets the numbers of an operation's output -----------------------------------------

    def _move(self, name: str, func: Any, args: Any, kwargs: Any, tensors: Any, out: Any) -> None:
        """The numbers go where the entries go; a part of a parameter remains a part of it."""
        if all(t in self.places for t in tensors) and len(tensors) == 1:
            place = self.places[tensors[0]]
            moved = self._moved(name, func, args, kwargs, lambda t: place.index)
            for part, index in zip(_list(out), _list(moved), strict=True):
                self.places[part] = Place(place.name, place.shape, index)
            return
        moved = self._moved(name, func, args, kwargs, self._numbers)
        for part, ids in zip(_list(out), _list(moved), strict=True):
            self.ids[part] = ids

    def _moved(
        self, name: str, func: Any, args: Any, kwargs: Any, shadow: Callable[[Tensor], Tensor]
    ) -> Any:
        if name == "index":  # the positions asked for are no channels
            return func(shadow(args[0]), *args[1:], **kwargs)
        args = tree_map(lambda t: shadow(t) if isinstance(t, Tensor) else t, args)
        if name in ("view", "_unsafe_view", "reshape", "_reshape_alias"):
            return args[0].reshape(args[1])
        return func(*args, **kwargs)

    def _numbers(self, tensor: Tensor) -> Tensor:
        """The channel of each entry; those of a parameter among activations are along its last dimension."""
        if tensor in self.ids:
            return self.ids[tensor]  # type: ignore[no-any-return]
        if tensor not in self.places:
            return torch.full((), FREE if tensor.numel() == 1 else FIXED).expand(tensor.shape)
        place = self.places[tensor]
        dim = max((d for d in range(len(place.shape)) if place.shape[d] > 1), default=0)
        return self._make(place, dim)[_coordinate(place, dim)]

    def _copy(self, name: str, func: Any, args: Any, kwargs: Any, tensors: Any, out: Any) -> None:
        if args[0] in self.places:
            self.places[_list(out)[0]] = self.places[args[0]]
        else:
            self.ids[_list(out)[0]] = self.ids[args[0]]

    def _pad(self, name: str, func: Any, args: Any, kwargs: Any, tensors: Any, out: Any) -> None:
        self.ids[out] = func(self._numbers(args[0]).contiguous(), args[1], FREE)

    def _pointwise(
        self, name: str, func: Any, args: Any, kwargs: Any, tensors: Any, out: Any
    ) -> None:
        """Channels that meet are merged; one repeated over many others must stay."""
        out = _list(out)[0]
        labelled = [t for t in tensors if t in self.ids]
        if not labelled:
            return  # parameters alone; whoever reads the result finds nothing known, and is careful
        lead = self.ids[labelled[0]].expand(out.shape)
        for other in labelled[1:]:
            ids = self.ids[other].expand(out.shape)
            if _thin(other.shape, lead):
                self._freeze(ids, name)
            elif labelled[0] is not other and _thin(labelled[0].shape, ids):
                self._freeze(lead, name)
                lead = ids
            else:
                lead = self.seen.ledger.merge(lead, ids, self._why(name)).expand(out.shape)
        for other in tensors:
            if other not in self.ids and other.numel() > 1 and not _thin(other.shape, lead):
                self._beside(other, lead, name)
        self.ids[out] = lead

    def _beside(self, tensor: Tensor, ids: Tensor, name: str) -> None:
        """A parameter meets activations entry by entry: it has their channels."""
        if tensor not in self.places:
            self._freeze(ids, name)
            return
        place: Place = self.places[tensor]
        index = place.index.expand(ids.shape)
        ids, index = ids.reshape(-1), index.reshape(-1)
        ids, index = ids[ids != FREE], index[ids != FREE]
        for dim in reversed(range(len(place.shape))):
            found = torch.full((place.shape[dim],), FREE)
            at = _coordinate(Place(place.name, place.shape, index), dim)
            found[at] = ids
            if torch.equal(found[at], ids):
                self._bind(place.name, dim, found)
                return
        self._freeze(ids, name)

    def _convolution(
        self, name: str, func: Any, args: Any, kwargs: Any, tensors: Any, out: Any
    ) -> None:
        x, weight, bias, _, padding, _, transposed, _, groups = args
        place = self.places.get(weight)
        if place is None or place.index.shape != place.shape:
            self._unknown(name, func, args, kwargs, tensors, out)
            return
        spread = (1, -1, *[1] * (out.dim() - 2))
        if groups == 1:
            # A transposed convolution spreads a constant unevenly, as padding does at the border.
            uneven = transposed or any(p > 0 for p in padding)
            self._read(place.name, 0 if transposed else 1, x, uneven)
            ids = self._make(place, 1 if transposed else 0)
        elif groups == x.shape[1] == out.shape[1]:
            ids = self._columns(x, 1)
            self._bind(place.name, 0, ids)
        else:
            self._freeze(self.ids[x], "a convolution in groups")
            ids = self._make(place, 0)
            self._freeze(ids, "a convolution in groups")
        self._vector(bias, ids)
        self.ids[out] = ids.reshape(spread).expand(out.shape)

    def _linear(self, name: str, func: Any, args: Any, kwargs: Any, tensors: Any, out: Any) -> None:
        if name == "addmm":
            bias, x, weight = args
        elif name == "linear":
            x, weight, bias = (*args, None)[:3]
        else:
            (x, weight), bias = args, None
        if not self._product(x, weight, bias, name == "linear", out):
            self._unknown(name, func, args, kwargs, tensors, out)

    def _product(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, rows: bool, out: Tensor
    ) -> bool:
        """An activation times a matrix that is a parameter, or a part of one; whether it is that."""
        place = self.places.get(weight)
        if place is None or x not in self.ids:
            return False
        if place.index.dim() == 3 and bool((place.index == place.index[:1]).all()):
            place = Place(place.name, place.shape, place.index[0])  # repeated for every image
        if (sides := _sides(place, rows)) is None:
            return False
        (into, read_at), (from_, made_at) = sides
        ids = self._make(place, from_)[made_at]
        self._read(place.name, into, x, False, read_at)
        if bias is not None and bias not in self.places:
            self._freeze(ids, "a computed bias")
        self._vector(bias, ids)
        self.ids[out] = ids.expand(out.shape)
        return True

    def _batch_norm(
        self, name: str, func: Any, args: Any, kwargs: Any, tensors: Any, out: Any
    ) -> None:
        ids = self._columns(args[0], 1)
        for tensor in args[1:5]:
            self._vector(tensor, ids)
        weight = args[1] if isinstance(args[1], Tensor) else None
        maker = next((n for (n, _), made in self.seen.made.items() if torch.equal(made, ids)), None)
        if weight is not None and weight in self.places and maker is not None:
            self.seen.after.setdefault(maker, self.places[weight].name)
        self.ids[_list(out)[0]] = self.ids[args[0]]

    def _pool(self, name: str, func: Any, args: Any, kwargs: Any, tensors: Any, out: Any) -> None:
        out = _list(out)[0]
        spatial = 1 if name.endswith("1d") else 3 if name.endswith("3d") else 2
        axis = args[0].dim() - spatial - 1
        ids = self._columns(args[0], axis)
        self.ids[out] = ids.reshape(-1, *[1] * spatial).expand(out.shape)

    def _reduce(self, name: str, func: Any, args: Any, kwargs: Any, tensors: Any, out: Any) -> None:
        """What is averaged over must not depend on how many channels there are."""
        ids = self.ids[args[0]]
        outs = [t for t in _list(out) if isinstance(t, Tensor)]
        dims = next((a for a in args[1:] if isinstance(a, (int, list, tuple))), kwargs.get("dim"))
        dims = [dims] if isinstance(dims, int) else dims
        dims = [d % ids.dim() for d in (dims if dims else range(ids.dim()))]
        due = (ids, self._why(name)) if set(dims) & set(varying(ids)) else None
        for dim in sorted(dims, reverse=True):
            ids = ids.amax(dim, keepdim=True)
        for each in outs:
            self.ids[each] = ids.reshape(each.shape)
            if due is not None:
                self.dues[each] = due

    def _softmax(
        self, name: str, func: Any, args: Any, kwargs: Any, tensors: Any, out: Any
    ) -> None:
        ids = self.ids[args[0]]
        if args[1] % ids.dim() in varying(ids):
            self._freeze(ids, name)
        self.ids[out] = ids

    def _attend(self, name: str, func: Any, args: Any, kwargs: Any, tensors: Any, out: Any) -> None:
        """Products of activations by head: a head is one unit, whatever it is made of."""
        out = _list(out)[0]
        operands = [t for t in tensors if t in self.ids and t.dim() == out.dim() > 2]
        if name == "bmm" and self._product(args[0], args[1], None, False, out):
            return
        if any(t in self.places for t in tensors):
            self._unknown(name, func, args, kwargs, tensors, out)
            return
        slices = math.prod(out.shape[:-2])
        rows = [self.ids[t].reshape(slices, -1) for t in operands if t.numel()]
        why = self._why(name)
        numbers = [
            self.seen.ledger.merge_all(torch.cat(row), why) for row in zip(*rows, strict=True)
        ]
        heads = torch.tensor(numbers).reshape(*out.shape[:-2], 1, 1)
        self.ids[out] = heads.expand(out.shape)
        self.seen.heads[self.inside[-1]] = torch.tensor(list(dict.fromkeys(numbers)))

    def _norm(self, name: str, func: Any, args: Any, kwargs: Any, tensors: Any, out: Any) -> None:
        self._freeze(self.ids[args[0]], "a normalisation over channels")
        self.ids[_list(out)[0]] = self.ids[args[0]]

    def _unknown(
        self, name: str, func: Any, args: Any, kwargs: Any, tensors: Any, out: Any
    ) -> None:
        for tensor in tensors:
            if tensor in self.ids:
                self._freeze(self.ids[tensor], name)
            elif tensor in self.places and name not in ("zeros_like", "ones_like", "empty_like"):
                place = self.places[tensor]
                for (owner, _), ids in self.seen.slots.items():
                    if owner == place.name:
                        self._freeze(ids, name)
        for each in tree_leaves(out):
            if isinstance(each, Tensor):
                self.ids[each] = torch.full((), FIXED).expand(each.shape)

    # -- pieces ----------------------------------------------------------------------------------------

    def _due(self, tensors: list[Tensor]) -> None:
        """Freeze what must stay now that these tensors are used."""
        for tensor in tensors:
            if tensor in self.dues:
                self.seen.ledger.freeze(*self.dues[tensor])

    def _why(self, name: str) -> str:
        where = self.inside[-1] if self.inside and self.inside[-1] else "the model itself"
        return f"{name} in {where}"

    def _freeze(self, ids: Tensor, name: str) -> None:
        self.seen.ledger.freeze(ids, self._why(name))

    def _columns(self, x: Tensor, dim: int) -> Tensor:
        """One channel for each position along a dimension of an activation; those that share one merge."""
        ids: Tensor = self.ids[x].movedim(dim, 0)
        lead = ids.reshape(len(ids), -1)[:, 0] if ids.numel() else ids
        rest = ids.movedim(0, -1)
        if all(d == rest.dim() - 1 for d in varying(rest)):
            return lead.clone()
        return torch.tensor(
            [self.seen.ledger.merge_all(part, self._why("a mixed layout")) for part in ids]
        )

    def _read(self, name: str, dim: int, x: Tensor, padded: bool, at: Tensor | None = None) -> None:
        """A weight reads channels along one of its dimensions."""
        axis = 1 if at is None else x.dim() - 1
        ids = self._columns(x, axis)
        low, high = (f(x.movedim(axis, 0).flatten(1), 1) for f in (torch.amin, torch.amax))
        size = len(ids) if at is None else int(at.max()) + 1
        at = torch.arange(size) if at is None else at
        place = torch.full((size,), FREE)
        place[at] = ids
        self._bind(name, dim, place)
        least, most = (torch.zeros(size).index_put((at,), v.float().cpu()) for v in (low, high))
        self.seen.readings.append(Reading(name, dim, least, most, padded))

    def _make(self, place: Place, dim: int) -> Tensor:
        """The channels that a parameter makes along one of its dimensions."""
        key = (place.name, dim)
        if key not in self.seen.made:
            self.seen.made[key] = self.seen.ledger.fresh(place.shape[dim])
            self._bind(*key, self.seen.made[key])
        return self.seen.made[key]

    def _vector(self, tensor: Tensor | None, ids: Tensor) -> None:
        """A bias, a scale, a running mean: one entry for each channel."""
        if tensor is None or tensor not in self.places:
            return
        place = self.places[tensor]
        found = torch.full((math.prod(place.shape),), FREE)
        found[place.index.reshape(-1)] = ids
        self._bind(place.name, 0, found)

    def _bind(self, name: str, dim: int, ids: Tensor) -> None:
        key, ledger = (name, dim), self.seen.ledger
        known = self.seen.slots.get(key)
        if known is not None and len(known) < len(ids):
            known = torch.cat([known, torch.full((len(ids) - len(known),), FREE)])
        if known is not None and len(ids) < len(known):
            ids = torch.cat([ids, torch.full((len(known) - len(ids),), FREE)])
        merged = ids if known is None else ledger.merge(known, ids, f"two uses of {name}")
        self.seen.slots[key] = merged


RULES: dict[str, str] = {
    **dict.fromkeys(COPIES, "_copy"),
    **dict.fromkeys(POOLS, "_pool"),
    **dict.fromkeys(REDUCTIONS, "_reduce"),
    **dict.fromkeys(SOFTMAXES, "_softmax"),
    **dict.fromkeys(BATCH_NORMS, "_batch_norm"),
    **dict.fromkeys(ATTENTION, "_attend"),
    **dict.fromkeys(PRODUCTS, "_linear"),
    **dict.fromkeys(NORMS, "_norm"),
    "convolution": "_convolution",
    "constant_pad_nd": "_pad",
}


def _list(out: Any) -> list[Any]:
    return list(out) if isinstance(out, (list, tuple)) else [out]


def _thin(shape: torch.Size, ids: Tensor) -> bool:
    """Whether a tensor of this shape is repeated along all the dimensions in which channels differ."""
    shape = torch.Size([1] * (ids.dim() - len(shape)) + list(shape))
    dims = varying(ids)
    return bool(dims) and all(shape[d] == 1 for d in dims)


def _coordinate(place: Place, dim: int) -> Tensor:
    """Where along a dimension of its parameter every entry of a part of it lies."""
    after = math.prod(place.shape[dim + 1 :])
    return (place.index // after) % place.shape[dim]


def _sides(place: Place, rows: bool) -> tuple[tuple[int, Tensor], tuple[int, Tensor]] | None:
    """For a matrix in a product: (dimension, positions) of what it reads, and of what it makes."""
    if len(place.shape) != 2 or place.index.dim() != 2:
        return None
    index = place.index.T if rows else place.index  # (read, made)
    used = Place(place.name, place.shape, index)
    first, second = _coordinate(used, 0), _coordinate(used, 1)
    if bool((first == first[:1]).all()) and bool((second == second[:, :1]).all()):
        return (1, second[:, 0]), (0, first[0])
    if bool((first == first[:, :1]).all()) and bool((second == second[:1]).all()):
        return (0, first[:, 0]), (1, second[0])
    return None
