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

A `Lab` holds what all stages share. Every result is an artifact of the store, keyed by what it depends on,
so that a second run does no work and a changed setting re-runs only what depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from . import baselines, chain, masks, mining, slimming
from .chain import Work
from .evaluation import evaluate
from .features import Tap
from .job import Job
from .lab import Lab, Made, Result
from .mining import Suspects
from .settings import PLANS
from .store import Artifact, Workspace
from .train import fit_together

WORK: dict[str, Callable[[Lab, Made], Work]] = {
    "mine": chain.mine,
    "pretrain": chain.pretrain,
    "prune": chain.prune,
    "control": baselines.control,
    "finetune": chain.finetune,
    "refit": baselines.refit,
    **{name: partial(baselines.train, name) for name in baselines.MAKE},
}


def run(lab: Lab) -> tuple[Made, Artifact]:
    """Run the recipe's plan, then evaluate; the artifacts by stage, and the scores.

    Where the suspects are not worth acting on, the plan ends with the ordinary model.
    """
    return run_together([lab])[0]


def run_together(labs: Sequence[Lab]) -> list[tuple[Made, Artifact]]:
    """Run several labs of one plan and one store, stage by stage, their trainings side by side."""
    for lab in labs:
        check(lab)
    runs = [Run(lab) for lab in labs]
    for stage in PLANS[labs[0].recipe.plan]:
        going = [run for run in runs if run.goes_on(stage)]
        _make(stage, going)
    return [(run.made, evaluate(run.lab, run.made)) for run in runs]


@dataclass
class Run:
    """A lab and what it has made so far."""

    lab: Lab
    made: Made = field(default_factory=dict)

    def goes_on(self, stage: str) -> bool:
        """Whether this stage is still to come: without usable suspects the ordinary model is the answer."""
        if not {"mine", "pretrain"} <= self.made.keys():
            return True
        return mining.verdict(Suspects.of(self.made["mine"].tensors, "train")).usable

    def ingredients(self, stage: str) -> dict[str, Any]:
        return self.lab.ingredients(stage, {name: a.path.name for name, a in self.made.items()})


def _make(stage: str, runs: Sequence[Run]) -> None:
    """Add one stage's artifact to every run: what is stored, and what has to be made, at once."""
    if not runs:
        return
    wanted = {run.lab.store.path(i := run.ingredients(stage)): (run, i) for run in runs}
    store = runs[0].lab.store
    with store.making([i for _, i in wanted.values()]) as (found, open_):
        work = {path: WORK[stage](wanted[path][0].lab, wanted[path][0].made) for path in open_}
        for path, result in _work_off(stage, runs[0].lab, work, open_).items():
            found[path] = open_[path].promote(path, wanted[path][1], *result)
    for run in runs:
        run.made[stage] = found[store.path(run.ingredients(stage))]


def _work_off(
    stage: str, lab: Lab, work: dict[Path, Work], workspaces: Mapping[Path, Workspace]
) -> dict[Path, Result]:
    """Drive stages to their results, doing the trainings they ask for side by side."""
    results: dict[Path, Result] = {}
    while work:
        jobs: dict[Path, Job] = {}
        for path in list(work):
            try:
                jobs[path] = replace(next(work[path]), keeper=workspaces[path])
                workspaces[path].beside = len(work)
            except StopIteration as end:
                results[path] = end.value
                del work[path]
        if jobs:
            with lab.show(stage) as progress:
                fit_together(list(jobs.values()), progress=progress)
    return results


def check(lab: Lab) -> None:
    """Raise before anything is trained if the plan asks for what is not there."""
    lab.plan()  # its keys take in bias labels where a method needs them
    if "refit" in PLANS[lab.recipe.plan]:
        baselines.check_refit(lab)
    if "prune" in PLANS[lab.recipe.plan]:
        model = lab.network(lab.initial)
        Tap(model, lab.head)
        slimming.check(lab)
        masks.attach(model, unit=lab.recipe.prune.unit, example=lab.probe)
