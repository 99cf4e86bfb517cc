"""Estimate the cost of an audit from a few measured steps. Trainings that are stored cost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from ..parallel import from_first
from ..stages.context import Context
from ..stages.step_timing import step_seconds
from ..store import steps_done
from ..training.numerics import one_thread
from . import audit_networks
from .audit_networks import BORDER_NETWORKS, MINER, AuditNetwork
from .crossfit import CrossFit
from .half_training import HalfTraining, half_trainings, lanes, progress_name

Left = tuple[HalfTraining, int]  # a training, and the steps that remain
LATER_PHASE = 3  # from this phase on, networks are trained only if the verdict is still open


@dataclass(frozen=True)
class AuditCost:
    """The cost of an audit: the steps of a training, the most trainings it can have, and the time.

    `parts` maps each name that the progress bar will show to estimated seconds. `later_parts` does so for
    the networks that are trained only if the verdict is still open after the others.
    """

    steps: int
    trainings: int
    parts: dict[str, float]
    later_parts: dict[str, float]

    @property
    def seconds(self) -> float:
        """Return the estimated seconds of an audit that finds a shortcut."""
        return sum(self.parts.values())

    @property
    def most_seconds(self) -> float:
        """Return the estimated seconds of all networks that an audit can train."""
        return self.seconds + sum(self.later_parts.values())

    @property
    def miner_seconds(self) -> float:
        """Return the estimated seconds of the miner, which alone decides some audits."""
        names = (f"{MINER} ", audit_networks.find(MINER).title)
        return sum(cost for name, cost in self.parts.items() if name.startswith(names))


def audit_cost(context: Context, networks: Sequence[AuditNetwork] = ()) -> AuditCost:
    """Estimate the cost of an audit, or of some of its networks."""
    at_once, batch = lanes(context), context.recipe.pretrain.batch
    left, later = _trainings_left(context, networks)
    with one_thread() if at_once > 1 else nullcontext():
        each_step = step_seconds(context, batch) / at_once if left else 0.0
    parts, later_parts = (_parts(some, at_once, each_step) for some in (left, later))
    trainings = len(left) + len(later)
    return AuditCost(context.recipe.pretrain.steps, trainings, parts, later_parts)


def _parts(left: Sequence[Left], at_once: int, each_step: float) -> dict[str, float]:
    """Return the estimated seconds of trainings by the name that the progress bar will show."""
    parts: dict[str, float] = {}
    for start in range(0, len(left), at_once):
        group = left[start : start + at_once]
        name = progress_name([training for training, _ in group])
        parts[name] = parts.get(name, 0.0) + each_step * sum(steps for _, steps in group)
    return parts


def _trainings_left(
    context: Context, networks: Sequence[AuditNetwork]
) -> tuple[list[Left], list[Left]]:
    """Return the trainings that are not stored, of the first phases and of the later ones.

    If all networks of the first phases are stored, the audit did not need those of the later phases.
    """
    first = [each for each in audit_networks.every() if each.phase < LATER_PHASE]
    left = _missing(half_trainings(CrossFit(context), networks or first))
    if networks or not left:
        return left, []
    later = [each for each in audit_networks.every() if each.phase >= LATER_PHASE]
    at_border = [audit_networks.find(name) for name in BORDER_NETWORKS]
    more = half_trainings(CrossFit(context), later)
    return left, _missing(more + half_trainings(CrossFit(context, border_only=True), at_border))


def _missing(trainings: Sequence[HalfTraining]) -> list[Left]:
    return [(each, steps) for each in trainings if (steps := _steps_left(each))]


def _steps_left(training: HalfTraining) -> int:
    """Return the steps that remain after the last checkpoint of a training; 0 if it is stored."""
    store = training.crossfit.context.store
    path = store.path(training.ingredients())
    done = from_first(lambda: None if store.has(path) else steps_done(path))
    return 0 if done is None else max(training.settings.steps - done, 0)
