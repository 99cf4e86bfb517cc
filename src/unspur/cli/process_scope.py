"""What each process does with a command that a launcher such as torchrun has started several times."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..parallel import joined, launched_rank
from ..report.terminal import err, out

TOGETHER = ("run", "debias", "demo", "audit", "compare")  # commands that processes do together


@contextmanager
def several_processes(arguments: Sequence[str]) -> Iterator[None]:
    """Do a command together with the other processes; the first alone does one that cannot be shared.

    Only the first process prints.
    """
    rank = launched_rank()
    command = next((each for each in arguments if not each.startswith("-")), "")
    if command not in TOGETHER:
        if rank:
            sys.exit(0)
        yield
        return
    out.quiet = err.quiet = rank > 0
    with joined():
        yield
