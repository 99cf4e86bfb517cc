"""Judge the outcome of an input: the right result, or an unspur error that names it. All else is a fault."""

from __future__ import annotations

import resource
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unspur.boundary import explain_system
from unspur.errors import UnspurError

SECONDS = 60.0  # time limit of one input, the same as for one image of a data set
MEGABYTES = 1024  # how much memory one input may need
RIGHT, REFUSED = "right", "refused"
FAULTS = ("silent", "raw", "unnamed", "hang", "memory")


@dataclass(frozen=True)
class Case:
    """An input: its description, the call that reads it, and the check of its outcome.

    `right` gets the result and the warnings. The message of an error must contain one of `names`.
    """

    what: str
    call: Callable[[], Any]
    right: Callable[[Any, list[str]], bool]
    names: tuple[str, ...] = ("",)
    undo: Callable[[], object] = lambda: None


@dataclass
class Tally:
    """The number of outcomes by kind, and descriptions of the faults."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def add(self, outcome: str, text: str) -> None:
        self.counts[outcome] += 1
        if outcome in FAULTS:
            self.faults.append(f"{outcome}: {text}")

    def join(self, other: Tally) -> None:
        self.counts += other.counts
        self.faults += other.faults

    @property
    def inputs(self) -> int:
        return self.counts.total()


class TooLong(BaseException):
    """Raised in a call that exceeds the time limit."""


def judge(case: Case) -> tuple[str, str]:
    """Return the outcome of a case and, for a fault, what happened."""
    before = _memory()
    try:
        outcome, text = _attempt(case)
    finally:
        case.undo()
    if _memory() - before > MEGABYTES:
        return "memory", f"{case.what}: {_memory() - before:.0f} MB more"
    return outcome, text


def _attempt(case: Case) -> tuple[str, str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with time_limit(SECONDS), explain_system():
                found = case.call()
        except TooLong:
            return "hang", f"{case.what}: more than {SECONDS:.0f} s"
        except UnspurError as error:
            if any(name in str(error) for name in case.names):
                return REFUSED, ""
            return "unnamed", f"{case.what}: {error}"
        except Exception as error:
            return "raw", f"{case.what}: {type(error).__name__}: {str(error)[:300]}"
    if case.right(found, [str(each.message) for each in caught]):
        return RIGHT, ""
    return "silent", f"{case.what}: {str(found)[:300]}"


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TooLong in this thread when the time is up."""

    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def limit_memory(more: int = 6 * 2**30) -> None:
    """Limit the memory of this process to a little more than it has now."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more, now + more))


def _memory() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
