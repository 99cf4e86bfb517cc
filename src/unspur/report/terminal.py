"""What a person sees in the terminal: progress bars (plain lines when piped), tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from ..training.inputs import Progress as Follower
from . import gain_words
from .console import err, out, size
from .run_clock import RunClock, duration
from .words import MODELS, ordinary_is_result

__all__ = [
    "Bar",
    "Display",
    "Lines",
    "err",
    "out",
    "percent",
    "score_table",
    "show",
    "size",
    "summary",
]

FIRST_LINE = 2.0  # seconds after the first step of a stage


class Bar:
    """A progress bar that shows the stage, the loss, and the time left of the stage and of the run."""

    def __init__(self, progress: Progress, stage: str, clock: RunClock):
        self.progress, self.clock = progress, clock.begin(stage)
        self.task = progress.add_task(stage, total=None, loss="", left="")

    def update(self, step: int, steps: int, loss: float) -> None:
        words = _left_words(*self.clock.step(step, steps))
        text = f"loss {loss:.4f}" if math.isfinite(loss) else ""
        self.progress.update(self.task, completed=step, total=steps, loss=text, left=words)


class Lines:
    """A line for the first steps, one every few seconds, and one at the end."""

    def __init__(self, stage: str, clock: RunClock | None = None, *, every: float = 10.0):
        self.stage, self.every = stage, every
        self.clock = (clock or RunClock()).begin(stage)
        self.printed_at: float | None = None

    def update(self, step: int, steps: int, loss: float) -> None:
        left = self.clock.step(step, steps)
        now = self.clock.last[1] if self.clock.last else 0.0
        if self.printed_at is None:  # nothing is known after one step
            self.printed_at = now - self.every + FIRST_LINE
        if step < steps and now - self.printed_at < self.every:
            return
        self.printed_at = now
        parts = [f"{self.stage}: step {step} of {steps}"]
        parts += [f"loss {loss:.4f}"] * math.isfinite(loss)
        parts += [words] if (words := _left_words(*left)) else []
        err.print(", ".join(parts), markup=False)


def _left_words(stage: float | None, run: float | None) -> str:
    """Say how long the stage and the run still take, as far as it is known."""
    parts = [] if stage is None else [f"{duration(stage)} left"]
    return ", ".join(parts + ([] if run is None else [f"{duration(run)} of the run"]))


class Display:
    """Shows trainings: nothing, a bar in a terminal, lines elsewhere; knows what a run should cost."""

    def __init__(self, *, quiet: bool = False):
        self.quiet, self.clock = quiet, RunClock()

    @contextmanager
    def __call__(self, name: str) -> Iterator[Follower | None]:
        if self.quiet:
            yield None
        elif not err.is_terminal:
            yield Lines(name, self.clock)
        else:
            columns = (
                TextColumn("{task.description:>9}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[loss]}"),
                TextColumn("{task.fields[left]}"),
            )
            with Progress(*columns, console=err) as progress:
                yield Bar(progress, name, self.clock)


def show(*, quiet: bool = False) -> Display:
    """Return how training is shown: nothing, a bar in a terminal, lines elsewhere."""
    return Display(quiet=quiet)


def percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def score_table(scores: dict[str, Any]) -> Table:
    """Return a table of the ordinary, the pruned and the debiased model."""
    table = Table()
    table.add_column("")
    known = scores["debiased"]["unbiased"] is not None
    columns = ["unbiased", "aligned", "conflicting", "worst_group"] if known else ["average"]
    gain = gain_words.measured(scores) or {}
    parts = [part for part in gain_words.PARTS if part in gain]
    for name in [*(f"{part} ({gain[part]['count']})" for part in parts), *columns, "weights kept"]:
        table.add_column(name.replace("_", " "), justify="right")
    shown = ("ordinary",) if ordinary_is_result(scores) else MODELS
    for row in shown:
        if scores[row] is not None:
            share = 1.0 if row == "ordinary" else scores["density"]["overall"]
            cells = [gain[part].get(row) for part in parts]
            cells += [scores[row][column] for column in columns]
            table.add_row(row, *map(percent, cells), percent(share))
    return table


WORSE = 0.05  # a loss of accuracy that a user is told of
UNCUT = 0.99  # a share of weights kept that a user is told of
SCORED_ON = {
    "test": "the test split",
    "valid": "the validation split",
    "train": "the training images themselves, as nothing was kept apart: this says little",
}


def summary(scores: dict[str, Any]) -> Iterator[str]:
    """Yield the findings in a few lines."""
    gain = gain_words.measured(scores)
    yield from gain_words.sentences(gain) if gain else ()
    alone = "The average is" if gain else "Scored"
    yield f"{alone} on {SCORED_ON.get(scores['evaluated_on'], scores['evaluated_on'])}."
    if judge := scores.get("judge"):
        yield judge["text"]
    if mined := scores["mining"]:
        if not judge:  # which says the same, with its reasons
            yield mined["text"]
        if mined["precision"] is not None:
            yield (
                f"Of {mined['flagged']} suspects {percent(mined['precision'])} really contradict the "
                f"shortcut (precision); {percent(mined['recall'])} of those that do were found (recall)."
            )
    if crowded := scores.get("crowded"):
        yield crowded
    if (unseen := scores.get("unseen")) and not gain and scores["debiased"]["unbiased"] is None:
        yield from _unseen_lines(unseen, chosen=scores["selection"]["rule"] == "heldout")
    chosen = scores["selection"]
    if "step" in chosen:
        how = "lowest loss on suspects outside training"
        if chosen["rule"] != "heldout":
            how = f"the last: {chosen.get('reason', 'asked for')}"
        yield f"Iterate kept: step {chosen['step']} ({how})."
    if scores.get("pruned") and scores["density"]["overall"] > UNCUT:
        yield "Next to nothing was cut; prune.sparsity, prune.rate or prune.steps up cuts more."


def _unseen_lines(unseen: dict[str, Any], *, chosen: bool) -> Iterator[str]:
    """Yield the scores for data without labels of the shortcut."""
    but = " but the iterate was chosen" * chosen
    yield f"Accuracy on {unseen['split']}, where nothing was trained{but}:"
    spoken = {"all": "all", "suspects": "suspects of the miner", "others": "the others"}
    for part, name in spoken.items():
        values = [
            f"{model} {percent(unseen[model][part])}"
            for model in ("ordinary", "debiased")
            if model in unseen
        ]
        yield f"  {name} ({unseen['counts'][part]}): {', '.join(values)}"
    if "ordinary" in unseen and unseen["debiased"]["all"] < unseen["ordinary"]["all"] - WORSE:
        yield "  The debiased model does worse here than the ordinary one: look before you use it."
    yield "  (No label of the shortcut is known: suspects are what contradicts the miner, not the truth.)"
