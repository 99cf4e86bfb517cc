"""The team: the processes that work on one command together, and the rank of this one.

Without a team (a single process, or outside of `joined`) the functions here describe one process, the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch.distributed as dist


@dataclass(frozen=True)
class Team:
    """All processes of one job.

    `control` is a group on the CPU for decisions and small objects; `node` has the processes of this machine.
    """

    rank: int
    size: int
    control: dist.ProcessGroup
    node: dist.ProcessGroup
    node_rank: int  # rank of this process among those of its machine
    node_size: int = 1  # number of processes on this machine
    can_be_captured: bool = False  # whether a CUDA graph can record the communication

    def rows(self, total: int) -> Rows:
        """Return the rows of a batch that belong to this process."""
        return rows_of(total, self.rank, self.size)


@dataclass(frozen=True)
class Rows:
    """The rows from `start` to `stop` out of `total`; `counts` has the number of rows of every process."""

    start: int
    stop: int
    total: int
    counts: tuple[int, ...]

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def slice(self) -> slice:
        return slice(self.start, self.stop)


def rows_of(total: int, rank: int, size: int) -> Rows:
    """Divide rows evenly, in order; the first processes have one more if there is a remainder."""
    counts = tuple(total // size + (number < total % size) for number in range(size))
    start = sum(counts[:rank])
    return Rows(start, start + counts[rank], total, counts)


_active: list[Team | None] = [None]  # the innermost scope is the last


def current() -> Team | None:
    """Return the current team of this process; None if it works alone."""
    return _active[-1]


def process_count() -> int:
    """Return how many processes work together now."""
    return team.size if (team := current()) else 1


def processes_here() -> int:
    """Return how many processes share this machine's processors now."""
    return team.node_size if (team := current()) else 1


def is_first() -> bool:
    """Return whether this process writes artifacts, logs and pages."""
    return (team := current()) is None or team.rank == 0


@contextmanager
def working_in(team: Team | None) -> Iterator[None]:
    """Work in a team, or alone, within the block."""
    _active.append(team)
    try:
        yield
    finally:
        _active.pop()


def alone() -> AbstractContextManager[None]:
    """Work as if there were only one process: for work of the first process while the others wait."""
    return working_in(None)
