"""Terminal output: progress bars (plain lines if the output is not a terminal), tables, a summary."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from ..runs.named_models import is_only_ordinary
from ..training.inputs import Progress as Follower
from . import gain_words
from .console import err, out, size
from .run_clock import RunClock, duration
from .words import MODELS, held_out

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
        words = _time_left(*self.clock.step(step, steps))
        text = f"loss {loss:.4f}" if math.isfinite(loss) else ""
        self.progress.update(self.task, completed=step, total=steps, loss=text, left=words)


class Lines:
    """Prints a line after the first steps, then every few seconds, and at the end."""

    def __init__(self, stage: str, clock: RunClock | None = None, *, every: float = 10.0):
        self.stage, self.every = stage, every
        self.clock = (clock or RunClock()).begin(stage)
        self.printed_at: float | None = None

    def update(self, step: int, steps: int, loss: float) -> None:
        left = self.clock.step(step, steps)
        now = self.clock.last[1] if self.clock.last else 0.0
        if self.printed_at is None:  # after one step the speed is not known yet
            self.printed_at = now - self.every + FIRST_LINE
        if step < steps and now - self.printed_at < self.every:
            return
        self.printed_at = now
        parts = [f"{self.stage}: step {step} of {steps}"]
        parts += [f"loss {loss:.4f}"] * math.isfinite(loss)
        parts += [words] if (words := _time_left(*left)) else []
        err.print(", ".join(parts), markup=False)


def _time_left(stage: float | None, run: float | None) -> str:
    """Say how long the stage and the run still take, if this is known."""
    parts = [] if stage is None else [f"{duration(stage)} left"]
    return ", ".join(parts + ([] if run is None else [f"{duration(run)} left in the run"]))


class Display:
    """Shows the progress of trainings: a bar in a terminal, lines elsewhere, nothing if `quiet`.

    Its clock knows the expected cost of the run.
    """

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
    """Return a display of trainings: a bar in a terminal, lines elsewhere, nothing if `quiet`."""
    return Display(quiet=quiet)


def percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def score_table(scores: dict[str, Any]) -> Table:
    """Return a table of the ordinary, the pruned and the debiased model."""
    table = Table()
    table.add_column("accuracy")
    known = scores["debiased"]["unbiased"] is not None
    columns = ["unbiased", "aligned", "conflicting", "worst_group"] if known else ["average"]
    gain = gain_words.measured(scores) or {}
    parts = [part for part in gain_words.PARTS if part in gain]
    for name in [*(f"{part} ({gain[part]['count']})" for part in parts), *columns, "weights kept"]:
        table.add_column(name.replace("_", " "), justify="right")
    for row in _shown(scores):
        if scores[row] is not None:
            share = 1.0 if row == "ordinary" else scores["density"]["overall"]
            cells = [gain[part].get(row) for part in parts]
            cells += [scores[row][column] for column in columns]
            table.add_row(row, *map(percent, cells), percent(share))
    return table


def _shown(scores: dict[str, Any]) -> tuple[str, ...]:
    """Return the models that a run has; without a debiased model, its scores are the ordinary one's."""
    return ("ordinary",) if is_only_ordinary(scores) else MODELS


WORSE = 0.05  # a warning is shown if accuracy drops by more than this
UNCUT = 0.99  # a hint is shown if a larger share of the weights is kept
SCORED_ON = {
    "test": "the test split",
    "valid": "the validation split",
    "the training samples kept out of training": "held-out training images",
    "train": "the training images, because there are no held-out images; this is not reliable",
}


def summary(scores: dict[str, Any]) -> Iterator[str]:
    """Yield the findings in a few lines."""
    gain = gain_words.measured(scores)
    yield from gain_words.sentences(gain) if gain else ()
    subject = "The average is" if gain else "Scored"
    yield f"{subject} on {SCORED_ON.get(scores['evaluated_on'], scores['evaluated_on'])}."
    if scope := gain_words.scope_of_average(scores):
        yield scope
    if judge := scores.get("judge"):
        yield judge["text"]
    yield from (rejection := gain_words.rejection(scores))
    if unchecked := gain_words.unchecked(scores):
        yield unchecked
    if mined := scores["mining"]:
        if not judge:  # the judge's text says the same, with reasons
            yield mined["text"]
        if mined["precision"] is not None:
            yield (
                f"{percent(mined['precision'])} of {mined['flagged']} suspects are conflicting images "
                f"(precision); {percent(mined['recall'])} of all conflicting images were found (recall)."
            )
    if crowded := scores.get("crowded"):
        yield crowded
    measured = gain or rejection or scores["debiased"]["unbiased"] is not None
    if (unseen := scores.get("unseen")) and not measured:
        heldout = scores["selection"]["rule"] == "heldout"
        yield from _unseen_lines(unseen, _shown(scores), chosen=heldout)
    chosen = scores["selection"]
    if "step" in chosen:
        how = "lowest loss on held-out suspects and other held-out images"
        if chosen["rule"] != "heldout":
            reason = chosen.get("reason", "asked for")
            how = f"the last one: {'set by select.rule' if reason == 'asked for' else reason}"
        yield f"Training step selected: {chosen['step']} ({how})."
    if scores.get("pruned") and scores["density"]["overall"] > UNCUT:
        yield (
            "Almost no weights were cut. To cut more, increase prune.sparsity, prune.rate or prune.steps."
        )


def _unseen_lines(unseen: dict[str, Any], shown: tuple[str, ...], *, chosen: bool) -> Iterator[str]:
    """Yield the scores for data without bias labels; `chosen` says if they selected the training step."""
    but = " (they were used to select the training step)" * chosen
    yield f"Accuracy on {held_out(unseen['split'])}{but}:"
    titles = {"all": "all", "suspects": "suspects of the miner", "others": "the others"}
    for part, name in titles.items():
        values = [f"{model} {percent(unseen[model][part])}" for model in shown if model in unseen]
        yield f"  {name} ({unseen['counts'][part]}): {', '.join(values)}"
    compared = "debiased" in shown and "ordinary" in unseen
    if compared and unseen["debiased"]["all"] < unseen["ordinary"]["all"] - WORSE:
        yield "  The debiased model is worse here than the ordinary one: check it before you use it."
    yield "  (There are no bias labels. The miner only estimates which images are conflicting.)"
