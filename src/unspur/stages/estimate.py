"""Estimate the time and disk of a run from a few measured training steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

from ..parallel import from_first
from ..store import steps_done
from ..training.sections import TrainingSettings
from .context import Context
from .driver import Run
from .keys import StageKey
from .mine import mining_before
from .stage_groups import group_of, lanes, threads_of
from .step_timing import step_seconds

MINED_BYTES = 9  # stored for each sample by mining
FORWARD = 0.35  # time to predict a batch, as a share of a training step
PAGE_SECONDS = 2.0  # for figures and page, without the predictions of networks


@dataclass(frozen=True)
class Estimate:
    """The steps of one stage, whether it is stored, and its seconds and bytes if it is not.

    `steps_left` counts the steps after its last checkpoint.
    """

    stage: str
    steps: int
    stored: bool
    seconds: float
    disk: int
    steps_left: int = 0

    @property
    def is_resumed(self) -> bool:
        """Whether it continues from a checkpoint."""
        return 0 < self.steps_left < self.steps


def estimate(run: Run) -> list[Estimate]:
    """Return for each stage whether it is stored and, if not, its cost in time and disk."""
    run.check()
    context = run.context
    seconds_of = cache(partial(_step_seconds, context))
    network = sum(t.numel() * t.element_size() for t in context.initial.values())
    rows = []
    for name, key in run.keys.items():
        steps, left = stage_steps(run, name)
        seconds = 0.0
        if name == "mine" and context.miner is not None:
            # The judge has trained these networks before.
            steps, seconds = (0, 0.0) if key.stored or context.judge else context.miner.cost()
            left = steps
        elif left:
            settings = context.recipe.table(name)
            assert isinstance(settings, TrainingSettings)
            mixes, group = key.stage.mixes(context.recipe), group_of(context, name)
            each = seconds_of(group, settings.batch, mixes)
            seconds = each * plain_steps(context, key, settings, left)
        disk = key.stage.copies * network
        disk += MINED_BYTES * len(context.splits.train) * (name == "mine")
        rows.append(Estimate(name, steps, key.stored, seconds, disk, left))
    return rows


def _step_seconds(context: Context, group: tuple[str, ...], batch: int, mixes: bool) -> float:
    """Return the seconds of one step of a stage, of which several are trained at the same time."""
    with threads_of(context, group):
        return step_seconds(context, batch, mixes=mixes) / lanes(context, group)


def stage_steps(run: Run, name: str) -> tuple[int, int]:
    """Return the steps of a stage, and how many of them remain."""
    context, key = run.context, run.keys[name]
    settings = context.recipe.table(name)
    steps = settings.steps if isinstance(settings, TrainingSettings) else 0
    if name == "mine" and context.corrections is not None and mining_before(context):
        steps = 0  # the scores of the mining before the corrections are reused
    return steps, 0 if key.stored else max(steps - from_first(lambda: steps_done(key.path)), 0)


def plain_steps(context: Context, key: StageKey, settings: TrainingSettings, steps: int) -> float:
    """Return the number of ordinary steps that take as long as `steps` of a stage and its watchers."""
    evaluations = steps / context.recipe.watch_every if context.unseen is not None else 0.0
    last = key.stage.name == context.recipe.stages[-1]
    if last and context.recipe.select.rule != "last":
        evaluations += steps / context.recipe.select.every
    samples = 0 if context.unseen is None else int(context.unseen[1].sum())
    return key.stage.cost * steps + evaluations * FORWARD * samples / settings.batch


def relative_costs(run: Run) -> dict[str, float]:
    """Return the relative costs of the remaining stages, without measuring anything."""
    costs: dict[str, float] = {}
    for name, key in run.keys.items():
        settings, (_, left) = run.context.recipe.table(name), stage_steps(run, name)
        if isinstance(settings, TrainingSettings) and left:
            costs[name] = settings.batch * plain_steps(run.context, key, settings, left)
    return costs


def closing_seconds(run: Run) -> float:
    """Return roughly the seconds for scores, pictures and page, for which every network predicts."""
    splits, batch = run.context.splits, run.context.recipe.pretrain.batch
    images = sum(len(part) for part in splits.parts().values())
    networks = min(3, len(run.keys))
    return PAGE_SECONDS + networks * images / batch * FORWARD * step_seconds(run.context, batch)
