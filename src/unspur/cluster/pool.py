"""A pool runs tasks and yields their results as they finish; the simplest pool is this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class TaskFailure:
    """The result of a task that failed; the other tasks continue."""

    reason: str


@dataclass(frozen=True)
class PoolState:
    """The progress of a pool: how many tasks are in each state."""

    running: int
    waiting: int
    done: int
    failed: int
    seconds_left: float | None  # None until the first task is done


class Pool(Protocol):
    """Runs tasks: calls of one function with different arguments, which must be picklable."""

    def run(
        self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Any | TaskFailure]]:
        """Yield the index and the result of every task, in the order in which they finish."""
        ...


class SerialPool:
    """Runs one task after another in this process; an error stops all of them."""

    def run(
        self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Any | TaskFailure]]:
        for number, arguments in enumerate(tasks):
            yield number, function(*arguments)
