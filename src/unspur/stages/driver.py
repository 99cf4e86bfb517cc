"""A run: the stages of its plan, one after another, then scores.

    mine      ──> suspects     which training samples contradict the shortcut
    pretrain  ──> weights      the ordinary, biased model
    adapt     ──> weights      a network trained on images that exchange style, to start from
    prune     ──> masks        which weights survive
    control   ──> masks        random masks or masks by size instead, for comparison
    finetune  ──> weights      the survivors, retrained
    refit     ──> weights      a new last layer
    lff, ...  ──> weights      a method that is one stage
    evaluate  ──> scores       the only reader of the test split
    inspect   ──> pictures     for the report, which runs no network

Every result is an artifact of the store, keyed by what it depends on, so that a second run does no work and
a changed setting re-runs only what depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

from ..store import Artifact, Workspace
from ..training.inputs import Training
from ..training.loop import fit_together
from .batch_check import check_batches
from .context import Advice, Context
from .evaluate import evaluate
from .keys import StageKey, plan_keys
from .log_hook import log_row
from .results import Results, StageResult
from .stage import Work
from .suspects import verdict


@dataclass
class Run:
    """A context, the keys of its plan (computed once), and the results so far."""

    context: Context
    results: Results = field(default_factory=Results)
    checked: bool = False

    @cached_property
    def keys(self) -> dict[str, StageKey]:
        return plan_keys(self.context)

    @property
    def stored(self) -> list[str]:
        """The stages that need not be run again."""
        return [name for name, key in self.keys.items() if key.stored]

    def ready(self) -> None:
        """Do now what a run would do first: load libraries, move the data to the device, compute keys."""
        self.context.ready()
        _ = self.keys

    def settle(self) -> None:
        """Ask the judge. Without a shortcut there is no gain to measure: no sample is reserved for it."""
        if self.context.reserves and self.advice is not None and not self.advice.debias:
            self.context = replace(self.context, measures_gain=False)
            self.__dict__.pop("keys", None)  # they depend on it

    def check(self) -> None:
        """Raise before anything is trained if the plan asks for what is not there; looks once."""
        if self.checked:
            return
        for key in self.keys.values():  # keys take in bias labels where a method needs them
            key.stage.check(self.context)
        check_batches(self.context, [name for name, key in self.keys.items() if not key.stored])
        self.checked = True

    @cached_property
    def advice(self) -> Advice | None:
        """The advice of the judge, who is asked once; None if there is no judge."""
        return self.context.judge() if self.context.judge else None

    def wants(self, stage: str) -> bool:
        """Return whether to run a stage. Without a shortcut the plan ends with the ordinary model."""
        if self.advice is not None and not self.advice.debias:
            return stage == "pretrain"
        if not {"mine", "pretrain"} <= self.results.keys():
            return True
        return verdict(self.results.suspects()).usable


def run(context: Context) -> tuple[Results, Artifact]:
    """Run the recipe's plan, then evaluate; return the artifacts by stage, and the scores.

    Where the judge sees no shortcut, or the suspects are not worth acting on, the plan ends with the
    ordinary model.
    """
    return run_together([Run(context)])[0]


def run_together(runs: Sequence[Run]) -> list[tuple[Results, Artifact]]:
    """Run several plans of the same stages and one store, stage by stage, their trainings side by side."""
    for each in runs:
        each.check()
        each.settle()
    for stage in runs[0].keys:
        _add_stage(stage, [each for each in runs if each.wants(stage)])
    return [(each.results, evaluate(each.context, each.results)) for each in runs]


def _add_stage(stage: str, runs: Sequence[Run]) -> None:
    """Add the artifact of one stage to every run: load what is stored, compute the rest side by side."""
    if not runs:
        return
    wanted = {each.keys[stage].path: each for each in runs}
    store = runs[0].context.store
    with store.making([each.keys[stage].ingredients for each in wanted.values()]) as (found, open_):
        work = {
            path: wanted[path].keys[stage].stage.work(wanted[path].context, wanted[path].results)
            for path in open_
        }
        for path, workspace in open_.items():
            if (hook := wanted[path].context.on_log) is not None:
                workspace.on_row = partial(log_row, hook, stage)
        for path, result in _work_off(stage, runs[0].context, work, open_).items():
            ingredients = wanted[path].keys[stage].ingredients
            found[path] = open_[path].promote(path, ingredients, result.tensors(), result.facts())
    for each in runs:
        each.results[stage] = found[each.keys[stage].path]


def _work_off(
    stage: str, context: Context, work: dict[Path, Work], workspaces: Mapping[Path, Workspace]
) -> dict[Path, StageResult]:
    """Run the work of stages to its end; the trainings they ask for run side by side."""
    results: dict[Path, StageResult] = {}
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
            with context.training(stage) as progress:
                fit_together(list(trainings.values()), progress=progress)
    return results
