"""Networks whose forward returns an object with `.logits`, as those of transformers do.

They become a subclass of their own class that returns the logits alone. Layers and weights keep their names,
so that the user's own network can load what is trained.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from .builder import BUILTIN, Builder
from .head import evaluating
from .libraries import is_of_library


class LogitsOnly(nn.Module):
    """Comes before a network's own class and returns the `.logits` of its output."""

    def forward(self, x: Tensor) -> Tensor:
        output: Any = super().forward(x)  # of the network's own class
        logits: Tensor = output if isinstance(output, Tensor) else output.logits
        return logits


def find_logits(base: Builder, example: Callable[[], Tensor]) -> Builder:
    """Return a builder of networks that return logits; the same one if its networks do so already.

    `example` makes a batch of network input. A network that fails on it is left to later checks.
    """
    name = base.how["name"]
    if name in BUILTIN or is_of_library(name) or not _has_logits(base.build(0), example()):
        return base
    return build_with_logits(base)


def build_with_logits(base: Builder) -> Builder:
    """Return a builder of the same networks that return logits; what describes it says so."""
    how = {**base.how, "output": "logits"}
    return Builder(lambda: return_logits(base.make()), how, base.source)


def return_logits(model: nn.Module) -> nn.Module:
    """Return a network that returns logits and shares all layers with the given one, which is not changed."""
    if isinstance(model, LogitsOnly):
        return model
    own: Any = type(model)
    shared = copy.copy(model)
    shared.__class__ = _logits_class(own)
    return shared


def restore_output(model: nn.Module) -> nn.Module:
    """Return a network of the user's class, which returns what its code returns, with the same layers."""
    if not isinstance(model, LogitsOnly):
        return model
    shared = copy.copy(model)
    shared.__class__ = type(model).__bases__[1]
    return shared


@torch.no_grad()
def _has_logits(model: nn.Module, example: Tensor) -> bool:
    """Return whether the output of a network is an object with logits."""
    try:
        with torch.random.fork_rng(devices=[]), evaluating(model):
            output = model(example)
    except Exception:  # of a user's network; `check_outputs` says what is wrong
        return False
    return not isinstance(output, Tensor) and isinstance(getattr(output, "logits", None), Tensor)


@cache
def _logits_class(kind: type[nn.Module]) -> type[nn.Module]:
    """Return a subclass that returns logits; it has the name of the class, which messages show."""
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, (LogitsOnly, kind), names)
