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

LATER_PHASE = 3  # from this phase on, networks are trained only if the verdict is still open


@dataclass(frozen=True)
class AuditCost:
    """The largest cost that an audit can have: the number of trainings, the steps of each, and the time.

    `parts` maps each name that the progress bar will show to estimated seconds.
    """

    steps: int
    trainings: int
    parts: dict[str, float]

    @property
    def seconds(self) -> float:
        """Return the estimated seconds of all trainings."""
        return sum(self.parts.values())

    @property
    def miner_seconds(self) -> float:
        """Return the estimated seconds of the miner, which alone decides some audits."""
        names = (f"{MINER} ", audit_networks.find(MINER).title)
        return sum(cost for name, cost in self.parts.items() if name.startswith(names))


def audit_cost(context: Context, networks: Sequence[AuditNetwork] = ()) -> AuditCost:
    """Estimate the largest cost of an audit, or of some of its networks."""
    at_once, batch = lanes(context), context.recipe.pretrain.batch
    left = _trainings_left(context, networks)
    with one_thread() if at_once > 1 else nullcontext():
        each_step = step_seconds(context, batch) / at_once if left else 0.0
    parts: dict[str, float] = {}
    for start in range(0, len(left), at_once):
        group = left[start : start + at_once]
        name = progress_name([training for training, _ in group])
        parts[name] = parts.get(name, 0.0) + each_step * sum(steps for _, steps in group)
    return AuditCost(context.recipe.pretrain.steps, len(left), parts)


def _trainings_left(
    context: Context, networks: Sequence[AuditNetwork]
) -> list[tuple[HalfTraining, int]]:
    """Return the trainings that are not stored, with the steps that remain.

    If all networks of the first phases are stored, the audit did not need those of the later phases.
    """
    first = [each for each in audit_networks.every() if each.phase < LATER_PHASE]
    left = _missing(half_trainings(CrossFit(context), networks or first))
    if networks or not left:
        return left
    later = [each for each in audit_networks.every() if each.phase >= LATER_PHASE]
    at_border = [audit_networks.find(name) for name in BORDER_NETWORKS]
    more = half_trainings(CrossFit(context), later)
    return left + _missing(more + half_trainings(CrossFit(context, border_only=True), at_border))


def _missing(trainings: Sequence[HalfTraining]) -> list[tuple[HalfTraining, int]]:
    return [(each, steps) for each in trainings if (steps := _steps_left(each))]


def _steps_left(training: HalfTraining) -> int:
    """Return the steps that remain after the last checkpoint of a training; 0 if it is stored."""
    store = training.crossfit.context.store
    path = store.path(training.ingredients())
    done = from_first(lambda: None if store.has(path) else steps_done(path))
    return 0 if done is None else max(training.settings.steps - done, 0)
