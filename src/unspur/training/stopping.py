"""Decide after each step whether to checkpoint and whether to stop, the same in all processes."""

from __future__ import annotations

import threading
import time

from ..parallel.agreement import largest
from ..parallel.team import Team
from .fit_options import FitOptions

AGREE_EVERY = 0.5  # seconds between two agreements of several processes
MOST = 1000  # steps between two agreements


class Stopping:
    """Decides when a training writes a checkpoint or stops, from the clock and Ctrl-C.

    Clocks differ between processes, and signals reach them at different steps. So the processes of a team
    exchange their state at steps that all of them know.
    """

    def __init__(self, stop: threading.Event, options: FitOptions, team: Team | None, step: int):
        self.stop, self.options, self.team = stop, options, team
        self.saved_at = self.agreed_at = time.perf_counter()
        self.agreed_step, self.next_step = step, step + 1

    def decide(self, step: int) -> tuple[bool, bool]:
        """Return whether to checkpoint and whether to stop after a step."""
        can_save = step < self.options.steps and step % self.options.checkpoint_every == 0
        if self.team is None:
            stops, saves = self.stop.is_set(), can_save and self._is_time()
        elif can_save or step >= self.next_step:
            stops, saves = self._agree(self.team, step)
            saves = saves and can_save
        else:
            return False, False
        if stops or saves:
            self.saved_at = time.perf_counter()
        return stops or saves, stops

    def _is_time(self) -> bool:
        """Return whether enough seconds have passed since the last checkpoint."""
        return time.perf_counter() - self.saved_at >= self.options.checkpoint_seconds

    def _agree(self, team: Team, step: int) -> tuple[bool, bool]:
        """Exchange whether any process stops; the first process decides when to save and to agree again."""
        first = team.rank == 0
        own = (self.stop.is_set(), first and self._is_time(), self._steps_between(step) * first)
        stops, saves, steps = largest([float(number) for number in own], team)
        self.agreed_at, self.agreed_step = time.perf_counter(), step
        self.next_step = step + int(steps)
        return bool(stops), bool(saves)

    def _steps_between(self, step: int) -> int:
        """Return the number of steps until the next agreement, from the time of a step."""
        seconds = (time.perf_counter() - self.agreed_at) / max(1, step - self.agreed_step)
        return max(1, min(MOST, int(AGREE_EVERY / max(seconds, 1e-6))))
