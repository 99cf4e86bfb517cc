"""The progress of trainings that go on at the same time, shown as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

from .inputs import Progress


@dataclass
class _Total:
    """What is shown, and the steps that every training has done."""

    progress: Progress
    steps: Sequence[int]
    done: list[int]
    lock: Lock = field(default_factory=Lock)


@dataclass
class LaneProgress:
    """The progress of one training, added to that of the others."""

    total: _Total
    number: int

    def update(self, step: int, steps: int, loss: float) -> None:
        """Show the steps of all trainings together, and this one's loss."""
        total = self.total
        with total.lock:
            total.done[self.number] = step
            total.progress.update(sum(total.done), sum(total.steps), loss)


def shared_progress(progress: Progress | None, steps: Sequence[int]) -> list[LaneProgress | None]:
    """Return the progress for each of some trainings of so many steps; None where nothing is shown."""
    if progress is None:
        return [None] * len(steps)
    total = _Total(progress, steps, [0] * len(steps))
    return [LaneProgress(total, number) for number in range(len(steps))]
