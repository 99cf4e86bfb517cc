"""A table of the progress of many runs on a cluster: running, waiting, done, failed, time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.live import Live
from rich.table import Table

from ..cluster import PoolState
from .terminal import err

HEADER = ("running", "waiting", "done", "failed", "time left")


@contextmanager
def show_pool(*, quiet: bool = False) -> Iterator[Callable[[PoolState], None]]:
    """Yield a function that shows a state: as a live table in a terminal, otherwise as lines."""
    if quiet:
        yield lambda state: None
    elif err.is_terminal:
        with Live(console=err, transient=False) as live:
            yield lambda state: live.update(pool_table(state))
    else:
        yield StateLines().show


class StateLines:
    """Prints a line whenever the counts change."""

    def __init__(self) -> None:
        self.shown: tuple[int, ...] = ()

    def show(self, state: PoolState) -> None:
        counts = (state.running, state.waiting, state.done, state.failed)
        if counts != self.shown:
            self.shown = counts
            cells = zip(HEADER, state_cells(state), strict=True)
            err.print("groups: " + ", ".join(f"{n} {c}" for n, c in cells), markup=False)


def pool_table(state: PoolState) -> Table:
    """Return the table of a state."""
    table = Table(*HEADER, title="groups of runs")
    table.add_row(*state_cells(state))
    return table


def state_cells(state: PoolState) -> list[str]:
    """Return the cells of a state, in the order of the header."""
    counts = (state.running, state.waiting, state.done, state.failed)
    return [*map(str, counts), _duration(state.seconds_left)]


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
