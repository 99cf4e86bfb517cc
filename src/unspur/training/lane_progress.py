"""Show the progress of several simultaneous trainings as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

from .inputs import Progress


@dataclass
class _SharedTotal:
    """The progress display, and the steps that each training has finished."""

    progress: Progress
    steps: Sequence[int]
    done: list[int]
    lock: Lock = field(default_factory=Lock)


@dataclass
class LaneProgress:
    """The progress of one training as a part of the total."""

    total: _SharedTotal
    number: int

    def update(self, step: int, steps: int, loss: float) -> None:
        """Show the steps of all trainings together, and the loss of this one."""
        total = self.total
        with total.lock:
            total.done[self.number] = step
            total.progress.update(sum(total.done), sum(total.steps), loss)


def shared_progress(
    progress: Progress | None, steps: Sequence[int], done: Sequence[int]
) -> list[LaneProgress | None]:
    """Return one progress for each training, with its length and the steps that are done before.

    None if nothing is shown.
    """
    if progress is None:
        return [None] * len(steps)
    total = _SharedTotal(progress, steps, list(done))
    return [LaneProgress(total, number) for number in range(len(steps))]
