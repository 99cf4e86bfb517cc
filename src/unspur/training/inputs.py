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
    """Looks at a method every so many steps (and after the last); what it returns is logged.

    What it gathers is checkpointed with the run: `state` gives it, `restore` takes it back.
    """

    every: int

    def __call__(self, method: Method, step: int) -> Mapping[str, float]: ...
    def state(self) -> dict[str, Tensor]: ...
    def restore(self, state: Mapping[str, Tensor]) -> None: ...


class Checkpointer(Protocol):
    """Where a stage in progress is kept; see `store.Workspace`."""

    def resume(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None: ...
    def checkpoint(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None: ...
    def log(self, row: Mapping[str, Any]) -> None: ...


class Progress(Protocol):
    """Shows a person how far training is; the loss is NaN until the first one is read."""

    def update(self, step: int, steps: int, loss: float) -> None: ...


@dataclass(frozen=True)
class Training:
    """One training: what is minimised, on which data in which order, how; who watches, where it is kept."""

    method: Method
    source: Source
    order: Order
    options: FitOptions
    watchers: Sequence[Watcher] = ()
    checkpointer: Checkpointer | None = None
