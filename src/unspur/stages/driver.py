"""A run: the stages of its plan, one after another, then scores.

    mine      ──> suspects     which training samples contradict the shortcut
    pretrain  ──> weights      the ordinary, biased model
    prune     ──> masks        which weights survive
    control   ──> masks        others in their place, for comparison
    finetune  ──> weights      the survivors, retrained
    refit     ──> weights      a new last layer
    lff, ...  ──> weights      a method that is one stage of its own
    evaluate  ──> scores       the only reader of the test split
    inspect   ──> pictures     for the report alone, which runs no network (inspection.py)

A `Context` holds what all stages share. Every result is an artifact of the store, keyed by what it
depends on, so that a second run does no work and a changed setting re-runs only what depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from .. import masks
from ..models.head import Tap
from ..recipes.settings import PLANS
from ..store import Artifact, Workspace
from ..training.inputs import Training
from ..training.loop import fit_together
from . import baselines, chain, channel_pruning, mining
from .chain import Work
from .context import Context, Made, Result
from .evaluate import evaluate
from .mining import Suspects

WORK: dict[str, Callable[[Context, Made], Work]] = {
    "mine": chain.mine,
    "pretrain": chain.pretrain,
    "prune": chain.prune,
    "control": baselines.control,
    "finetune": chain.finetune,
    "refit": baselines.refit,
    **{name: partial(baselines.train, name) for name in baselines.MAKE},
}


def run(context: Context) -> tuple[Made, Artifact]:
    """Run the recipe's plan, then evaluate; the artifacts by stage, and the scores.

    Where the suspects are not worth acting on, the plan ends with the ordinary model.
    """
    return run_together([context])[0]


def run_together(contexts: Sequence[Context]) -> list[tuple[Made, Artifact]]:
    """Run several contexts of one plan and one store, stage by stage, their trainings side by side."""
    for context in contexts:
        check(context)
    runs = [Run(context) for context in contexts]
    for stage in PLANS[contexts[0].recipe.plan]:
        going = [run for run in runs if run.goes_on(stage)]
        _make(stage, going)
    return [(run.made, evaluate(run.context, run.made)) for run in runs]


@dataclass
class Run:
    """A context and what it has made so far."""

    context: Context
    made: Made = field(default_factory=dict)

    def goes_on(self, stage: str) -> bool:
        """Whether this stage is still to come: without usable suspects the ordinary model is the answer."""
        if not {"mine", "pretrain"} <= self.made.keys():
            return True
        return mining.verdict(Suspects.of(self.made["mine"].tensors, "train")).usable

    def ingredients(self, stage: str) -> dict[str, Any]:
        return self.context.ingredients(stage, {name: a.path.name for name, a in self.made.items()})


def _make(stage: str, runs: Sequence[Run]) -> None:
    """Add one stage's artifact to every run: what is stored, and what has to be made, at once."""
    if not runs:
        return
    wanted = {run.context.store.path(i := run.ingredients(stage)): (run, i) for run in runs}
    store = runs[0].context.store
    with store.making([i for _, i in wanted.values()]) as (found, open_):
        work = {path: WORK[stage](wanted[path][0].context, wanted[path][0].made) for path in open_}
        for path, result in _work_off(stage, runs[0].context, work, open_).items():
            found[path] = open_[path].promote(path, wanted[path][1], *result)
    for run in runs:
        run.made[stage] = found[store.path(run.ingredients(stage))]


def _work_off(
    stage: str, context: Context, work: dict[Path, Work], workspaces: Mapping[Path, Workspace]
) -> dict[Path, Result]:
    """Drive stages to their results, doing the trainings they ask for side by side."""
    results: dict[Path, Result] = {}
    while work:
        trainings: dict[Path, Training] = {}
        for path in list(work):
            try:
                trainings[path] = replace(next(work[path]), checkpointer=workspaces[path])
                workspaces[path].beside = len(work)
            except StopIteration as end:
                results[path] = end.value
                del work[path]
        if trainings:
            with context.show(stage) as progress:
                fit_together(list(trainings.values()), progress=progress)
    return results


def check(context: Context) -> None:
    """Raise before anything is trained if the plan asks for what is not there."""
    context.plan()  # its keys take in bias labels where a method needs them
    if "refit" in PLANS[context.recipe.plan]:
        baselines.check_refit(context)
    if "prune" in PLANS[context.recipe.plan]:
        model = context.network(context.initial)
        Tap(model, context.head)
        channel_pruning.check(context)
        masks.attach(model, unit=context.recipe.prune.unit, example=context.probe)
