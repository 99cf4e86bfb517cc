"""Estimate how long a run takes before it begins, so that its progress can show the remaining time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..audit.audit_cost import AuditCost
from ..audit.crossfit_miner import CrossFitMiner
from ..audit.recommendation import Judge
from ..parallel import broadcast_first
from ..report.terminal import Display
from ..stages import Run
from ..stages.context import Context
from ..stages.estimate import Estimate, closing_seconds, estimate, relative_costs
from ..stages.stage_groups import group_costs


@dataclass(frozen=True)
class Announcement:
    """The expected costs of a run: the audit (if there is one), the stages, and the scores and report."""

    stages: list[Estimate]
    audit: AuditCost | None
    closing: float

    @property
    def seconds(self) -> float:
        """The approximate time of the whole run, if there is a shortcut."""
        audit = self.audit.seconds if self.audit else 0.0
        return audit + sum(row.seconds for row in self.stages) + self.closing

    @property
    def ordinary_seconds(self) -> float:
        """The approximate time if the audit finds no shortcut, so that only the ordinary model is trained."""
        return (self.audit.seconds if self.audit else 0.0) + self._ordinary_training

    @property
    def least_seconds(self) -> float:
        """The approximate time if the audit's miner alone is enough to see that there is no shortcut."""
        return (self.audit.miner_seconds if self.audit else 0.0) + self._ordinary_training

    @property
    def _ordinary_training(self) -> float:
        return sum(row.seconds for row in self.stages if row.stage == "pretrain") + self.closing


def announce(run: Run) -> Announcement:
    """Measure a few steps and estimate the costs of a run; its progress then shows the remaining time."""
    judge = run.context.judge
    audit = judge.cost() if isinstance(judge, Judge) else None
    found = Announcement(estimate(run), audit, closing_seconds(run))
    parts, miner = audit.parts if audit else {}, run.context.miner
    stages = {row.stage: row.seconds for row in found.stages if row.seconds}
    if isinstance(miner, CrossFitMiner) and stages.pop("mine", 0.0):
        parts = miner.parts()
    stages = group_costs(run.context, stages)
    expect_costs(run.context, {**parts, **stages, "report": found.closing})
    return found


def expect_costs(context: Context, seconds: Mapping[str, float]) -> None:
    """Pass the expected seconds of each training to the progress display of a run or an audit."""
    if isinstance(context.show, Display):
        context.show.clock.expect(seconds, in_seconds=True)


def expect_relative_costs(run: Run) -> None:
    """Pass estimated relative costs to the progress display, if nothing was measured before."""
    show = run.context.show
    needs_costs = isinstance(show, Display) and not show.clock.expected
    if not broadcast_first(needs_costs):
        return
    # In every process, because they read the store together.
    costs = group_costs(run.context, relative_costs(run))
    if isinstance(show, Display):
        show.clock.expect(costs, in_seconds=False)
