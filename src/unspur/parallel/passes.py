"""Divide a pass over data without training: every process computes a part, and all get the whole result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from .agreement import gather_objects
from .team import Team, current, rows_of

_passes: list[SharedPass] = []


class SharedPass:
    """A pass over one or more sources: the size of each, in the order in which they are read."""

    def __init__(self, team: Team):
        self.team = team
        self.totals: list[int] = []

    def share(self, where: Tensor) -> Tensor:
        """Return this process's part of `where`, the samples of the next source."""
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
    """Divide the pass within the block over the processes; yields None if there is only one process."""
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
    """Return this process's part of the samples `where` in a shared pass, and all of them otherwise."""
    return _passes[-1].share(where) if _passes else where
