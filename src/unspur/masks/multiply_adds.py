"""Count the multiply–adds of a network: in total, by weight, and the share that remains with masks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import flop_registry

from ..models.head import evaluating
from .dispatch_mode import QuickDispatchMode
from .verbs import CONVS, CONVS_T


@contextmanager
def plain_attention() -> Iterator[None]:
    """Compute nn.MultiheadAttention by plain operations, which can be counted and traced."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def multiply_adds(model: nn.Module, x: Tensor) -> int:
    """Count the multiply–adds of a network for one image: convolutions, linear layers, attention."""
    counter = _FlopCounter()
    with (
        plain_attention(),
        sdpa_kernel(SDPBackend.MATH),  # the counter does not know the kernels of CPUs
        torch.no_grad(),
        evaluating(model),
        counter,
    ):
        model(x[:1])
    return counter.total // 2


class _FlopCounter(QuickDispatchMode):
    """Counts what torch's FlopCounterMode counts in total."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func is not torch.ops.prim.device.default:
            with self:  # count the operations that this one consists of
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        out = func(*args, **kwargs)
        if count := flop_registry.get(func.overloadpacket):
            self.total += int(count(*args, **kwargs, out_val=out))
        return out


@torch.no_grad()
def uses(model: nn.Module, x: Tensor, names: Iterable[str]) -> dict[str, int]:
    """Count how often each entry of a weight is used for one image: once per output position or token."""
    owners = {name: model.get_submodule(name.rpartition(".")[0]) for name in names}
    times: dict[nn.Module, int] = {}

    def note(module: nn.Module, args: Any, out: Any) -> None:
        count = _positions(module, args, out)
        called = [module]
        if isinstance(module, nn.MultiheadAttention):  # it does not call its last layer
            called.append(module.out_proj)
        for each in called:
            times[each] = times.get(each, 0) + count

    attentions = {m for m in model.modules() if isinstance(m, nn.MultiheadAttention)}
    hooks = [module.register_forward_hook(note) for module in {*owners.values(), *attentions}]
    try:
        with evaluating(model):
            model(x[:1])
    finally:
        for hook in hooks:
            hook.remove()
    return {name: times.get(module, 1) for name, module in owners.items()}


def _positions(module: nn.Module, args: Any, out: Any) -> int:
    if isinstance(module, CONVS_T):
        return math.prod(args[0].shape[2:])
    if isinstance(module, CONVS):
        return math.prod(out.shape[2:])
    if isinstance(module, nn.Linear):
        return int(out.numel() // max(1, out.shape[-1]))
    if isinstance(module, nn.MultiheadAttention):
        return int(out[0].numel() // max(1, out[0].shape[-1]))
    return 1


def remaining_share(masks: Mapping[str, Tensor], times: Mapping[str, int]) -> float:
    """Return the share of the masked weights' multiply–adds that remains."""
    remaining = sum(int(keep.sum()) * times[name] for name, keep in masks.items())
    total = sum(keep.numel() * times[name] for name, keep in masks.items())
    return remaining / total if total else 1.0
