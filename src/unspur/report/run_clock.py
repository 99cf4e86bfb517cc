"""Estimate the remaining time of a run from the expected cost of its stages and the measured speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

RELIABLE_AFTER = 2.0  # seconds of steps after which the measured speed replaces the expected one


@dataclass
class RunClock:
    """The expected cost of every stage of a run, in any unit, and how much of it is done.

    If `in_seconds`, the unit is seconds, and the remaining time is known before the first step.
    """

    now: Callable[[], float] = lambda: time.monotonic()
    expected: dict[str, float] = field(default_factory=dict)
    in_seconds: bool = False
    seconds: float = 0.0  # time of the finished stages
    units: float = 0.0  # expected cost of the finished stages

    def expect(self, costs: Mapping[str, float], *, in_seconds: bool) -> None:
        """Set the expected cost of every stage that will be run, in the order of the run."""
        self.expected, self.in_seconds = dict(costs), in_seconds
        self.seconds = self.units = 0.0

    def begin(self, stage: str) -> StageClock:
        """Return the clock of a stage that begins now; the stages before it are finished or skipped."""
        if stage in self.expected:
            names = list(self.expected)
            for name in names[: names.index(stage)]:
                del self.expected[name]
        return StageClock(self, stage)

    def left_after(self, stage: str, seconds: float, units: float) -> float | None:
        """Return the estimated time of the stages after this one; None if it is not known yet.

        A stage that was not expected counts for nothing: the expected ones follow it.
        `seconds` is the time spent on this stage so far, `units` the expected cost of what it has done.
        """
        if not self.expected:
            return None
        later = sum(cost for name, cost in self.expected.items() if name != stage)
        known = seconds if stage in self.expected else 0.0
        spent, done = self.seconds + known, self.units + units
        if done > 0 and (spent >= RELIABLE_AFTER or not self.in_seconds):
            return later * spent / done
        return later if self.in_seconds else None


@dataclass
class StageClock:
    """Times the steps of one stage."""

    run: RunClock
    stage: str
    first: tuple[int, float] | None = None  # the first step and its time
    last: tuple[int, float] | None = None

    def step(self, step: int, steps: int) -> tuple[float | None, float | None]:
        """Record a step; return the seconds left of the stage and of the run, None if not known yet."""
        now = self.run.now()
        if self.first is None or (self.last and step < self.last[0]):
            self.first = (step, now)  # not always step 0: a stage may be resumed
        self.last = (step, now)
        done, spent = step - self.first[0], now - self.first[1]
        if not done:
            return None, None
        left = spent / done * (steps - step)
        units = self._units(done, steps)
        after = self.run.left_after(self.stage, spent, units)
        if step == steps:
            self.end(spent, units)
        return left, None if after is None else left + after

    def _units(self, done: int, steps: int) -> float:
        """Return the expected cost of this many steps of the stage."""
        assert self.first is not None
        to_do = max(steps - self.first[0], 1)
        return self.run.expected.get(self.stage, 0.0) * done / to_do

    def end(self, spent: float, units: float) -> None:
        """Add the time and cost of a finished stage to those of the run."""
        if self.run.expected.pop(self.stage, None) is not None:
            self.run.seconds += spent
            self.run.units += units


def duration(seconds: float) -> str:
    """Format a duration: seconds up to two minutes, then minutes, then hours."""
    if seconds < 119.5:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours"
