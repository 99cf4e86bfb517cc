"""Sentences and tables of a run's page: the verdict, and what debiasing changed, overall and by group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..audit.formatting import percent as percent
from ..audit.formatting import unbroken
from ..methods import method_of_plan
from ..runs.intervals import Interval, Intervals, share_interval
from ..runs.named_models import is_only_ordinary
from .palette import on, ramp

MODELS = ("ordinary", "pruned", "debiased")
GROUPED = ("unbiased", "aligned", "conflicting", "worst_group")
MEANING = {
    "unbiased": "mean over all groups",
    "aligned": "images that follow the shortcut",
    "conflicting": "images that contradict it",
    "worst_group": "the group with the lowest accuracy",
    "average": "all images",
}
LARGEST = 30  # classes or bias labels of a group matrix that is still readable
KINDS = {  # by the verdicts of the miner and of an audit
    "usable": "found",
    "shortcut": "found",
    "nothing": "clear",
    "too-many": "unsure",
    "lost-class": "unsure",
    "noise": "unsure",
    "unclear": "unsure",
}
STAGES = {
    "mine": "finds the suspects",
    "pretrain": "trains the ordinary model",
    "adapt": "trains a second network on mixed images",
    "prune": "learns which weights to keep",
    "finetune": "retrains the weights that are kept",
}
SHORT = 50  # the longest text before the colon of a verdict that is used as a headline


@dataclass(frozen=True)
class PageVerdict:
    """A verdict: its kind (found, clear, unsure, none), a headline and a sentence."""

    kind: str
    headline: str
    text: str


def verdict(scores: Mapping[str, Any], plan: str) -> PageVerdict:
    """Return the verdict of a run: the judge's if there was one, otherwise the miner's."""
    answer = scores.get("judge") or scores["mining"]
    if not answer:
        about = method_of_plan(plan)
        title = about.title if about else plan
        return PageVerdict(
            "none", f"{title}: scores of a run", "This method does not look for suspects."
        )
    return page_verdict(answer)


def page_verdict(answer: Mapping[str, Any]) -> PageVerdict:
    """Return a verdict of the miner or of an audit; the text before its colon is the headline."""
    headline, colon, text = answer["text"].partition(": ")
    if not colon or len(headline) > SHORT:
        headline, text = "A shortcut, or wrong labels", answer["text"]
    return PageVerdict(KINDS[answer["verdict"]], headline, unbroken(text[:1].upper() + text[1:]))


def network_titles(scores: Mapping[str, Any], plan: str) -> dict[str, str]:
    """Return the titles of the networks of a run, without a result that equals the ordinary model."""
    names = {"ordinary": "ordinary model", "pruned": "pruned model", "debiased": "debiased model"}
    method = method_of_plan(plan)
    if method is not None and method.name not in ("dcwp", "unspur"):
        names["debiased"] = method.title
    titles = {name: names[name] for name in MODELS if scores[name]}
    if is_only_ordinary(scores):
        titles.pop("debiased", None)
    return titles


def scored_on(scores: Mapping[str, Any]) -> str:
    """Return the name of the split that was scored."""
    name: str = scores["evaluated_on"]
    names = {
        "test": "the test split",
        "valid": "the validation split",
        "train": "the training split",
        "the training samples kept out of training": "held-out training images",
    }
    return names.get(name, name)


def held_out(split: str) -> str:
    """Return the name of the images that no stage was trained on, as scores record them."""
    return {"training samples kept out of training": "held-out training images"}.get(split, split)


def stages(names: Iterable[str]) -> str:
    """Say what each stage does, for those that every run can have."""
    known = [f"{name} {STAGES[name]}" for name in names if name in STAGES]
    return f"{'; '.join(known)}." if known else ""


def between(interval: Interval | None, *, signed: bool = False) -> str:
    """Format an interval in per cent; "" if there is none."""
    if interval is None or interval[0] != interval[0]:
        return ""
    low, high = (f"{100 * end:+z.1f}" if signed else f"{100 * end:.1f}" for end in interval)
    return f"{low} to {high}".replace("-", "−")


def change(scores: Mapping[str, Any], intervals: Intervals | None) -> str:
    """Describe what debiasing changed, in a sentence or two; "" if there is nothing to compare."""
    before, after = scores["ordinary"], scores["debiased"]
    if not before or before == after:
        return ""
    if after["conflicting"] is None:
        return f"{_change_unseen(scores.get('unseen'))} {_cost(scores, intervals)}".strip()
    gain = intervals.gain.get("conflicting") if intervals else None
    sentence = (
        f"On conflicting images of {scored_on(scores)}, accuracy goes from "
        f"{percent(before['conflicting'])} to {percent(after['conflicting'])}"
        f"{_points(after, before, gain)}; on aligned images, from "
        f"{percent(before['aligned'])} to {percent(after['aligned'])}."
    )
    if gain and gain[0] <= 0 <= gain[1]:
        return f"{sentence} This change is not significant."
    return f"{sentence} Debiasing made it worse." if gain and gain[1] < 0 else sentence


def _points(after: Mapping[str, Any], before: Mapping[str, Any], gain: Interval | None) -> str:
    if gain is None:
        return ""
    points = 100 * (after["conflicting"] - before["conflicting"])
    return f" ({points:+z.1f} points, 95 % interval {between(gain, signed=True)})".replace("-", "−")


def _change_unseen(unseen: Mapping[str, Any] | None) -> str:
    if not unseen or "ordinary" not in unseen or unseen["debiased"]["suspects"] is None:
        return ""
    before, after = unseen["ordinary"], unseen["debiased"]
    return (
        f"On held-out suspects, accuracy goes from {percent(before['suspects'])} to "
        f"{percent(after['suspects'])}; on the other held-out images from {percent(before['others'])} to "
        f"{percent(after['others'])}. There are no bias labels, so the suspects are estimated by the miner."
    )


def _cost(scores: Mapping[str, Any], intervals: Intervals | None) -> str:
    """Return a warning if the debiased model is significantly worse over all images."""
    gain = intervals.gain.get("average") if intervals else None
    if gain is None or gain[1] >= 0:
        return ""
    before, after = (percent(scores[name]["average"]) for name in ("ordinary", "debiased"))
    return f"On all images of {scored_on(scores)} it is worse: {after} instead of {before}."


@dataclass(frozen=True)
class Cell:
    """A number and its interval."""

    text: str
    range: str = ""


@dataclass(frozen=True)
class Table:
    """Columns with their meanings, and named rows of cells."""

    columns: list[tuple[str, str]]
    rows: list[tuple[str, list[Cell]]]


def accuracies(
    scores: Mapping[str, Any], names: Mapping[str, str], intervals: Intervals | None
) -> Table:
    """Return the accuracies of every network, and the gain."""
    known = scores["debiased"]["unbiased"] is not None
    metrics = (*GROUPED, "average") if known else ("average",)
    rows = []
    for name, title in names.items():
        ranges = intervals.accuracy.get(name, {}) if intervals else {}
        cells = [Cell(percent(scores[name][m]), between(ranges.get(m))) for m in metrics]
        share = 1.0 if name == "ordinary" else scores["density"]["overall"]
        rows.append((title, [*cells, Cell(percent(share))]))
    if {"ordinary", "debiased"} <= names.keys():
        rows.append(("gain in points", _gains(scores, metrics, intervals)))
    columns = [(metric.replace("_", " "), MEANING[metric]) for metric in metrics]
    return Table([*columns, ("weights kept", "of those that can be pruned")], rows)


def _gains(
    scores: Mapping[str, Any], metrics: Sequence[str], intervals: Intervals | None
) -> list[Cell]:
    cells = []
    for metric in metrics:
        before, after = scores["ordinary"][metric], scores["debiased"][metric]
        points = "–" if None in (before, after) else f"{100 * (after - before):+z.1f}"
        interval = intervals.gain.get(metric) if intervals else None
        cells.append(Cell(points.replace("-", "−"), between(interval, signed=True)))
    return [*cells, Cell("")]


def unseen(scores: Mapping[str, Any], names: Mapping[str, str]) -> Table | None:
    """Return held-out accuracies on suspects and others; None for data with bias labels."""
    accuracy = scores.get("unseen")
    if not accuracy or scores["debiased"]["unbiased"] is not None:
        return None
    counts = accuracy["counts"]
    columns = [(part, f"{counts[part]} images") for part in ("all", "suspects", "others")]
    rows = [
        (title, [_share(accuracy[name][part], counts[part]) for part, _ in columns])
        for name, title in names.items()
        if name in accuracy
    ]
    return Table(columns, rows)


def _share(value: float | None, count: int) -> Cell:
    return (
        Cell("–") if value is None else Cell(percent(value), between(share_interval(value, count)))
    )


@dataclass(frozen=True)
class Square:
    """One group of the matrix: its accuracy, the colour of the cell and of its text."""

    text: str
    fill: str
    ink: str


@dataclass(frozen=True)
class Matrix:
    """Accuracy by class (rows) and bias label (columns)."""

    title: str
    biases: list[str]
    rows: list[tuple[str, list[Square]]]


def matrices(
    scores: Mapping[str, Any],
    names: Mapping[str, str],
    classes: Sequence[str],
    biases: Sequence[str],
) -> list[Matrix]:
    """Return the group matrices of the ordinary and the debiased model; none if there are too many groups."""
    compared = [name for name in ("ordinary", "debiased") if name in names]
    result = []
    for name in compared:
        groups = scores[name]["groups"]
        if groups is None or max(len(groups), len(groups[0])) > LARGEST:
            return []
        columns = [group_name(k, biases) for k in range(len(groups[0]))]
        rows = [(classes[c], [_square(a) for a in row]) for c, row in enumerate(groups)]
        result.append(Matrix(names[name], columns, rows))
    return result


def group_name(number: int, names: Sequence[str]) -> str:
    """Return the name of a bias label; "group 3" if its name is a number or it has no name."""
    name = names[number] if number < len(names) else str(number)
    return f"group {name}" if name.lstrip("-").isdigit() else name


def _square(accuracy: float | None) -> Square:
    if accuracy is None:
        return Square("", "transparent", "inherit")
    fill = ramp(accuracy)
    return Square(f"{100 * accuracy:.0f}", fill, on(fill))
