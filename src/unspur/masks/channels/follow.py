"""Follow every channel of a network from the weight that makes it to the weights that read it.

The network runs once, as it is, on a few images. Beside every activation goes a tensor of the same shape
with the number of the channel that each of its entries belongs to. What moves data about (a view, a
concatenation, a split) does the same to the numbers; what works entry by entry (a sum, an activation)
merges the channels it brings together; a convolution or a linear layer reads channels and makes new ones.
Where an operation is none of these, its channels must stay, and the reason is kept. No network and no
layer is known by name; what is known are some eighty operations of torch (`rules.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ...models.head import evaluating
from .numbering import FIXED
from .record import Followed, Trail
from .rules import Call, rule, unknown

UNUSUAL = (RuntimeError, ValueError, TypeError, KeyError, IndexError, AttributeError)


def follow(model: nn.Module, x: Tensor) -> Followed:
    """Run a network on a few images and see where its channels go. The network is not changed."""
    follower = Follower(model)
    trail = follower.trail
    with torch.no_grad(), evaluating(model), follower.watching():
        trail.ids[x] = torch.full((), FIXED).expand(x.shape)
        output = model(x)
    outputs = [t for t in tree_leaves(output) if isinstance(t, Tensor)]
    trail.settle(outputs)
    for tensor in outputs:
        if tensor in trail.ids:
            trail.seen.ledger.freeze(trail.ids[tensor], "it is an output of the model")
    return trail.seen


class Follower(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operation of a running network."""

    def __init__(self, model: nn.Module):
        super().__init__()  # type: ignore[no-untyped-call]
        self.model = model
        self.trail = Trail(model)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Follow what runs inside, and know in which module it does."""
        with ExitStack() as stack:
            for name, module in self.model.named_modules():
                enter = module.register_forward_pre_hook(
                    lambda m, args, name=name: self.trail.inside.append(name)
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
        self.trail.inside.pop()

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
        if any(t in self.trail.ids or t in self.trail.places for t in tensors):
            self.trail.settle(tensors)
            call = Call(func.overloadpacket.__name__, func, args, kwargs, tensors, out)
            with torch.utils._python_dispatch._disable_current_modes():
                self._apply(call)
        return out

    def _apply(self, call: Call) -> None:
        try:
            rule(call)(self.trail, call)
        except UNUSUAL:  # a use of it that the rule does not foresee
            unknown(self.trail, call)
