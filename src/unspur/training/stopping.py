"""Decide after each step whether to checkpoint and whether to stop; several processes decide alike."""

from __future__ import annotations

import threading
import time

from ..parallel.agreement import largest
from ..parallel.team import Team
from .fit_options import FitOptions

ASKED_EVERY = 0.5  # seconds between two agreements of several processes
MOST = 1000  # steps between them


class Stopping:
    """When a training checkpoints or stops: by the clock and by Ctrl-C.

    Clocks differ between processes and signals reach them at different steps. So a team exchanges what each
    has seen, at steps that all of them know.
    """

    def __init__(self, stop: threading.Event, options: FitOptions, team: Team | None, step: int):
        self.stop, self.options, self.team = stop, options, team
        self.saved = self.asked = time.perf_counter()
        self.asked_at, self.next_at = step, step + 1

    def decide(self, step: int) -> tuple[bool, bool]:
        """Return whether to checkpoint and whether to stop after a step."""
        passed = step < self.options.steps and step % self.options.checkpoint_every == 0
        if self.team is None:
            stops, saves = self.stop.is_set(), passed and self._is_time()
        elif passed or step >= self.next_at:
            stops, saves = self._agree(self.team, step)
            saves = saves and passed
        else:
            return False, False
        if stops or saves:
            self.saved = time.perf_counter()
        return stops or saves, stops

    def _is_time(self) -> bool:
        """Return whether enough seconds have passed since the last checkpoint."""
        return time.perf_counter() - self.saved >= self.options.checkpoint_seconds

    def _agree(self, team: Team, step: int) -> tuple[bool, bool]:
        """Exchange whether anybody stops, and by the first process's clock when to save and to ask again."""
        first = team.rank == 0
        own = (self.stop.is_set(), first and self._is_time(), self._steps_between(step) * first)
        stops, saves, steps = largest([float(number) for number in own], team)
        self.asked, self.asked_at, self.next_at = time.perf_counter(), step, step + int(steps)
        return bool(stops), bool(saves)

    def _steps_between(self, step: int) -> int:
        """Return how many steps take about as long as the time between two agreements."""
        seconds = (time.perf_counter() - self.asked) / max(1, step - self.asked_at)
        return max(1, min(MOST, int(ASKED_EVERY / max(seconds, 1e-6))))
