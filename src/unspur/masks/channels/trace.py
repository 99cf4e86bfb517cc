"""Trace the channels of a network through one forward pass. See the docstring of the package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from ...models.head import evaluating
from ..dispatch_mode import QuickDispatchMode
from ..multiply_adds import plain_attention
from .numbering import FIXED
from .operations import Call
from .record import ChannelTrace
from .rules import rule_for
from .trace_state import TraceState

# A rule may meet arguments that it does not foresee; then the channels are frozen.
UNFORESEEN = (RuntimeError, ValueError, TypeError, KeyError, IndexError, AttributeError)


def trace(model: nn.Module, x: Tensor) -> ChannelTrace:
    """Run a network on a few images and return where its channels go. The network is not changed."""
    tracer = Tracer(model)
    state = tracer.state
    with torch.no_grad(), evaluating(model), tracer.watching():
        state.ids[x] = torch.full((), FIXED).expand(x.shape)
        output = model(x)
    outputs = [t for t in tree_leaves(output) if isinstance(t, Tensor)]
    state.freeze_pending(outputs)
    for tensor in outputs:
        if tensor in state.ids:
            state.record.numbers.freeze(state.ids[tensor], "it is an output of the model")
    return state.record


class Tracer(QuickDispatchMode):
    """A dispatch mode that applies the rule of every operation while a network runs."""

    def __init__(self, model: nn.Module):
        super().__init__()  # type: ignore[no-untyped-call]
        self.model = model
        self.state = TraceState(model)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Trace what runs inside, with the name of the module that runs it."""
        with ExitStack() as stack:
            for name, module in self.model.named_modules():
                self._note_when_running(stack, name, module)
            stack.enter_context(plain_attention())
            stack.enter_context(self)
            yield

    def _note_when_running(self, stack: ExitStack, name: str, module: nn.Module) -> None:
        enter = module.register_forward_pre_hook(lambda m, args: self.state.modules.append(name))
        leave = module.register_forward_hook(lambda m, args, out: self._leave())
        stack.callback(enter.remove)
        stack.callback(leave.remove)

    def _leave(self) -> None:
        self.state.modules.pop()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        if any(self.state.known(t) for t in tensors):
            self.state.freeze_pending(tensors)
            call = Call(func.overloadpacket.__name__, func, args, kwargs, tensors, out)
            with torch.utils._python_dispatch._disable_current_modes():
                self._apply(call)
        return out

    def _apply(self, call: Call) -> None:
        try:
            rule_for(call)(self.state, call)
        except UNFORESEEN:
            self.state.freeze_all(call)
