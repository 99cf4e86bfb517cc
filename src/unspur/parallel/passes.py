"""A pass through a data set without training: every process takes a share, all get the whole result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from .agreement import gather_objects
from .team import Team, current, rows_of

_passes: list[SharedPass] = []


class SharedPass:
    """The sources that a pass goes through, one after another, and how many samples each has."""

    def __init__(self, team: Team):
        self.team = team
        self.totals: list[int] = []

    def share(self, where: Tensor) -> Tensor:
        """Return this process's part of the samples of the next source."""
        self.totals.append(len(where))
        return where[self.team.rows(len(where)).slice]

    def gather(self, outputs: Sequence[Tensor]) -> Tensor:
        """Return the outputs of all processes, in the order of the sources' samples, on the CPU."""
        own = torch.cat(list(outputs)).cpu() if outputs else None
        parts = gather_objects(own, self.team)
        pieces = [
            torch.split(part, [len(rows_of(n, rank, self.team.size)) for n in self.totals])
            for rank, part in enumerate(parts)
            if part is not None
        ]
        return torch.cat([piece for source in zip(*pieces, strict=True) for piece in source])


@contextmanager
def shared_pass() -> Iterator[SharedPass | None]:
    """Share the passes through data within the block; None for one process."""
    team = current()
    if team is None:
        yield None
        return
    _passes.append(SharedPass(team))
    try:
        yield _passes[-1]
    finally:
        _passes.pop()


def own_share(where: Tensor) -> Tensor:
    """Return this process's part of some samples in a shared pass; all of them outside of one."""
    return _passes[-1].share(where) if _passes else where
