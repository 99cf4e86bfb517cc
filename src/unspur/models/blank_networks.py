"""Make networks without drawing their initial weights: to count weights, or to load others."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode


@cache
def count_weights(make: Callable[..., nn.Module], classes: int, options: str) -> int:
    """Return the number of weights of a network, without memory for them; `options` are JSON."""
    with torch.device("meta"), _WithoutDraws():
        model = make(classes=classes, **json.loads(options))
    return sum(weight.numel() for weight in model.parameters())


def make_blank(make: Callable[[], nn.Module]) -> nn.Module:
    """Make a network whose initial weights are not drawn, because other weights will be loaded."""
    with _WithoutDraws():
        return make()


class _WithoutDraws(TorchFunctionMode):
    """Skip draws of initial weights, by a method of a tensor or by a function of nn.init.

    On the meta device they have no effect, but for normal ones torch would import its compiler, which takes
    a second or more.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "").endswith(("uniform_", "normal_")):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
