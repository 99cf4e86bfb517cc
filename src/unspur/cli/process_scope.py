"""Run a command in several processes that a launcher such as torchrun has started."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..parallel import is_launched, launched_rank
from ..report.console import err, out

TOGETHER = ("run", "debias", "demo", "audit", "compare")  # commands that processes run together


@contextmanager
def several_processes(arguments: Sequence[str]) -> Iterator[None]:
    """Run a command together with the other processes; only the first process prints.

    A command that cannot be shared is run by the first process alone.
    """
    if not is_launched():
        yield
        return
    rank = launched_rank()
    command = next((each for each in arguments if not each.startswith("-")), "")
    if command not in TOGETHER:
        if rank:
            sys.exit(0)
        yield
        return
    from ..parallel import joined  # imports torch

    out.quiet = err.quiet = rank > 0
    with joined():
        yield
