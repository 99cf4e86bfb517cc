"""Run the stages of a plan one after another, then compute the scores.

    mine      ──> suspects     the training samples that contradict the shortcut
    pretrain  ──> weights      the ordinary model
    adapt     ──> weights      a network trained on mixed images, which pruning starts from
    prune     ──> masks        the weights to keep
    control   ──> masks        random or magnitude masks, for comparison
    finetune  ──> weights      the kept weights, retrained
    refit     ──> weights      a new last layer
    lff, ...  ──> weights      a method that is one stage
    evaluate  ──> scores       the only stage that reads the test split
    inspect   ──> pictures     for the report, which does not run networks

Every result is stored under a key of all that it depends on, so that a second run does no work, and a changed
setting re-runs only the stages that depend on it.
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
from .gain_check import GainCheck, check_gain, ordinary_only
from .keys import StageKey, plan_keys
from .log_hook import log_row
from .results import Results, StageResult
from .stage import Work
from .stage_groups import group_name, lanes, stage_groups, threads_of
from .suspects import class_counts, verdict


@dataclass
class Run:
    """A context, the keys of its plan (computed once), and the results so far.

    `gain_check` says whether debiasing was worth its cost. If not, `rejected` has the results with the
    debiased model, and `results` only those of the ordinary model.
    """

    context: Context
    results: Results = field(default_factory=Results)
    checked: bool = False
    gain_check: GainCheck | None = None
    rejected: Results | None = None

    @cached_property
    def keys(self) -> dict[str, StageKey]:
        return plan_keys(self.context)

    @property
    def stored(self) -> list[str]:
        """The stages whose results are already stored."""
        return [name for name, key in self.keys.items() if key.stored]

    def ready(self) -> None:
        """Prepare the run in advance: move the data to the device, compute keys."""
        self.context.ready()
        _ = self.keys

    def ask_judge(self) -> None:
        """Ask the judge. Without a shortcut no suspects are reserved, as there is no gain to measure."""
        if self.context.reserves and self.advice is not None and not self.advice.debias:
            self.context = replace(self.context, measures_gain=False)
            self.__dict__.pop("keys", None)  # keys depend on the reserved samples

    def check(self) -> None:
        """Raise before training if the plan needs something that is missing. Later calls do nothing."""
        if self.checked:
            return
        for key in self.keys.values():  # the keys raise if bias labels are needed and missing
            key.stage.check(self.context)
        check_batches(self.context, [name for name, key in self.keys.items() if not key.stored])
        self.checked = True

    def prepare(self) -> None:
        """Start in the background what the stages need that will run, such as compiling kernels."""
        for name, key in self.keys.items():
            if not key.stored and self.should_run(name):
                key.stage.prepare(self.context)

    @cached_property
    def advice(self) -> Advice | None:
        """The advice of the judge, computed once; None if there is no judge."""
        return self.context.judge() if self.context.judge else None

    def should_run(self, stage: str) -> bool:
        """Return whether to run a stage. Without a shortcut the plan ends with the ordinary model."""
        if self.advice is not None and not self.advice.debias:
            return stage == "pretrain"
        if not {"mine", "pretrain"} <= self.results.keys():
            return True
        suspects, splits = self.results.suspects(), self.context.splits
        counts = class_counts(suspects, splits.train.targets.cpu(), splits.classes)
        return verdict(suspects, by_class=counts).usable

    def check_gain(self) -> None:
        """Return to the ordinary model if debiasing was not worth its cost; without a judge do nothing."""
        if self.advice is None or not self.advice.debias:
            return
        self.gain_check = check_gain(self.context, self.results)
        if self.gain_check is not None and not self.gain_check.keep:
            self.rejected, self.results = self.results, ordinary_only(self.results)


def run(context: Context) -> tuple[Results, Artifact]:
    """Run the recipe's plan, then evaluate; return the artifacts by stage, and the scores.

    If the judge finds no shortcut, or the suspects are not usable, the plan ends with the ordinary model. If
    there is a judge, the debiased model is checked at the end (gain_check.py).
    """
    return run_together([Run(context)])[0]


def run_together(runs: Sequence[Run]) -> list[tuple[Results, Artifact]]:
    """Run several plans with the same stages and store, stage by stage; trainings run side by side."""
    for each in runs:
        each.check()
        each.ask_judge()
        each.prepare()
    for group in stage_groups(runs[0].context):
        add_stages(group, [each for each in runs if each.should_run(group[0])])
    for each in runs:
        each.check_gain()
    return [(each.results, evaluate(each.context, each.results)) for each in runs]


def mine_together(runs: Sequence[Run]) -> None:
    """Find the suspects of several runs, side by side, without the stages after it."""
    for each in runs:
        each.check()
    add_stages(("mine",), runs)


def add_stages(group: tuple[str, ...], runs: Sequence[Run]) -> None:
    """Add the artifacts of a group of stages to every run: load what is stored, compute the rest together."""
    jobs = {each.keys[stage].path: (stage, each) for each in runs for stage in group}
    if not jobs:
        return
    ingredients = {path: each.keys[stage].ingredients for path, (stage, each) in jobs.items()}
    store = runs[0].context.store
    with (
        threads_of(runs[0].context, group),
        store.open_artifacts(list(ingredients.values())) as (artifacts, open_),
    ):
        work = {path: _start_work(*jobs[path], workspace) for path, workspace in open_.items()}
        for path, result in _complete_work(group, runs[0].context, work, open_).items():
            tensors, facts = result.tensors(), result.facts()
            artifacts[path] = open_[path].promote(path, ingredients[path], tensors, facts)
    for each in runs:
        for stage in group:
            each.results[stage] = artifacts[each.keys[stage].path]


def _start_work(stage: str, run: Run, workspace: Workspace) -> Work:
    """Return the work of one stage of a run, whose log goes to the run's hook if there is one."""
    if (hook := run.context.on_log) is not None:
        workspace.on_row = partial(log_row, hook, stage)
    return run.keys[stage].stage.work(run.context, run.results)


def _complete_work(
    group: tuple[str, ...],
    context: Context,
    work: dict[Path, Work],
    workspaces: Mapping[Path, Workspace],
) -> dict[Path, StageResult]:
    """Complete the work of stages; the trainings that they yield run side by side."""
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
            with context.training(group_name(group)) as progress:
                at_once = lanes(context, group)
                fit_together(list(trainings.values()), progress=progress, lanes=at_once)
    return results
