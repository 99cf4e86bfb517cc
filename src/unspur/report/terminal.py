"""What a person sees in the terminal: progress bars (plain lines when piped), tables."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ..stages.context import Show
from ..training.inputs import Progress as Follower
from . import gain_words
from .console import err, out, size
from .words import MODELS, ordinary_is_result

__all__ = ["Bar", "Lines", "err", "out", "percent", "score_table", "show", "size", "summary"]


class Bar:
    """A progress bar that shows the stage, the loss and the time left."""

    def __init__(self, progress: Progress, stage: str):
        self.progress = progress
        self.task = progress.add_task(stage, total=None, loss="")

    def update(self, step: int, steps: int, loss: float) -> None:
        self.progress.update(self.task, completed=step, total=steps, loss=f"loss {loss:.4f}")


class Lines:
    """A line every few seconds, and one at the end."""

    def __init__(self, stage: str, *, every: float = 10.0):
        self.stage, self.every = stage, every
        self.printed_at = time.monotonic()
        self.first: tuple[int, float] | None = None

    def update(self, step: int, steps: int, loss: float) -> None:
        now = time.monotonic()
        self.first = self.first or (step, now)  # a resumed stage does not begin at step 0
        if step < steps and now - self.printed_at < self.every:
            return
        self.printed_at = now
        done = step - self.first[0]
        left = f", {(now - self.first[1]) / done * (steps - step):.0f} s left" if done else ""
        err.print(f"{self.stage}: step {step} of {steps}, loss {loss:.4f}{left}", markup=False)


def show(*, quiet: bool = False) -> Show:
    """Return how training is shown: nothing, a bar in a terminal, lines elsewhere."""

    @contextmanager
    def stage(name: str) -> Iterator[Follower | None]:
        if quiet:
            yield None
        elif not err.is_terminal:
            yield Lines(name)
        else:
            columns = (
                TextColumn("{task.description:>9}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[loss]}"),
                TimeRemainingColumn(),
            )
            with Progress(*columns, console=err) as progress:
                yield Bar(progress, name)

    return stage


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
