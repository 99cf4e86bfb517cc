"""The processes that work on one command together, and which of them this one is.

Without a team (one process, or outside of `joined`) every function here says: one process, the first.
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
    node_rank: int  # of this process on its machine
    node_size: int = 1  # processes on its machine
    can_be_captured: bool = False  # whether a CUDA graph can record exchanges

    def rows(self, total: int) -> Rows:
        """Return the rows of a batch that belong to this process."""
        return rows_of(total, self.rank, self.size)


@dataclass(frozen=True)
class Rows:
    """The rows from `start` to `stop` of `total`; `counts` says how many every process has."""

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
    """Divide rows evenly, in order; the first processes have one more where a remainder is left."""
    counts = tuple(total // size + (number < total % size) for number in range(size))
    start = sum(counts[:rank])
    return Rows(start, start + counts[rank], total, counts)


_active: list[Team | None] = [None]  # the innermost scope is the last


def current() -> Team | None:
    """Return the team this process works in now; None if it works alone."""
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
    """Work in a team, or alone, for the length of the block."""
    _active.append(team)
    try:
        yield
    finally:
        _active.pop()


def alone() -> AbstractContextManager[None]:
    """Work as if there were one process: for what the first process does while the others wait."""
    return working_in(None)
