"""The inputs of one training: method, data, order, options, watchers, checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from ..data.batches import Source
from .fit_options import FitOptions
from .method import Method
from .sampling import Order


class Watcher(Protocol):
    """A function that is called with the method every `every` steps and after the last one.

    What it returns is logged. Its state is checkpointed with the training: `state` returns it, and `restore`
    sets it.
    """

    every: int

    def __call__(self, method: Method, step: int) -> Mapping[str, float]: ...
    def state(self) -> dict[str, Tensor]: ...
    def restore(self, state: Mapping[str, Tensor]) -> None: ...


class Checkpointer(Protocol):
    """The storage of a training in progress; see `store.Workspace`."""

    def resume(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None: ...
    def checkpoint(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None: ...
    def log(self, row: Mapping[str, Any]) -> None: ...


class Progress(Protocol):
    """Shows the progress of training to a user; the loss is NaN until the first one is known."""

    def update(self, step: int, steps: int, loss: float) -> None: ...


@dataclass(frozen=True)
class Training:
    """One training: method, data, order of samples, options, watchers and checkpointer."""

    method: Method
    source: Source
    order: Order
    options: FitOptions
    watchers: Sequence[Watcher] = ()
    checkpointer: Checkpointer | None = None
