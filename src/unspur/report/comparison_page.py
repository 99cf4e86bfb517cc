"""The page of a comparison of methods, with scores by suspects and, if there are bias labels, by group."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..audit.formatting import percent
from ..runs.comparison_record import PARTS, ComparedMethod, MethodComparison
from ..runs.evaluation import AccuracyShare
from ..runs.intervals import Interval
from ..store import write_bytes
from .strips import Axis, Mark, strip
from .templates import render_template
from .words import MEANING, Cell, Table, between, scored_on

PAGE = "comparison.html"
FEW = 10  # an accuracy on fewer images than this gets a warning
DECIDES = {
    "conflicting": "images that contradict the shortcut",
    "worst_group": "the worst group",
    "suspects": "held-out suspects",
    "average": "all images",
}


def write_if_possible(found: MethodComparison, out: Path) -> Path | None:
    """Write the page into a folder; if a package is missing, warn and return None."""
    try:
        write_bytes(out / PAGE, render(found).encode())
    except ModuleNotFoundError as error:
        warnings.warn(f"no {PAGE} was written: {error}.", stacklevel=2)
        return None
    return out / PAGE


def render(found: MethodComparison) -> str:
    """Return the page as text."""
    return render_template("comparison.html.j2", content(found))


def content(found: MethodComparison) -> dict[str, Any]:
    """Return the variables of the page's template."""
    return {
        "found": found,
        "headline": headline(found),
        "lead": lead(found),
        "chart": chart(found),
        "decides": DECIDES[found.deciding],
        "scores": _scores(found),
        "unseen": _unseen(found) if found.unseen_counts else None,
        "scored_on": scored_on({"evaluated_on": found.evaluated_on}),
        "percent": percent,
    }


def deciding_share(found: MethodComparison, method: ComparedMethod) -> AccuracyShare:
    """Return the score of a method that shows the effect of a shortcut best."""
    name = found.deciding
    return method.unseen[name] if name == "suspects" else method.scores[name]


def best(found: MethodComparison) -> ComparedMethod:
    """Return the method with the highest deciding score."""
    return max(found.methods, key=lambda method: deciding_share(found, method).value)


def headline(found: MethodComparison) -> str:
    """Name the method with the best deciding score, if its gain is significant."""
    method, baseline = best(found), found[found.baseline]
    if method is baseline:
        return f"No method is better than {baseline.title}"
    points, interval = _gain_of_best(found)
    if interval[0] <= 0:
        return f"No method is clearly better than {baseline.title}"
    return f"{method.title}: {_points(points)} points on {DECIDES[found.deciding]}"


def lead(found: MethodComparison) -> str:
    """Compare the best method with the baseline in a sentence or two."""
    method, baseline = best(found), found[found.baseline]
    where = DECIDES[found.deciding]
    count = found.unseen_counts.get(found.deciding)
    where = where.removesuffix("s") if count == 1 else where
    where = f"{count:,} {where}" if count is not None else where
    if method is baseline:
        share = percent(deciding_share(found, baseline).value)
        return f"On {where}, {baseline.title} has an accuracy of {share}; no other method has a higher one."
    points, interval = _gain_of_best(found)
    before, after = (percent(deciding_share(found, each).value) for each in (baseline, method))
    corrected = " (corrected for the number of methods)" if len(found.methods) > 2 else ""
    sentence = (
        f"On {where}, {method.title} has an accuracy of {after} and {baseline.title} of {before}: "
        f"{_points(points)} points, 95 % interval {between(interval, signed=True)}{corrected}."
    )
    doubt = " This gain is not significant." if interval[0] <= 0 <= interval[1] else ""
    few = " There are too few images for a reliable comparison."
    few = few if count is not None and count < FEW else ""
    return f"{sentence}{doubt}{few} The interval covers the choice of images, for one seed."


def _gain_of_best(found: MethodComparison) -> tuple[float, Interval]:
    """Return how much the best method gains over the baseline on the deciding score."""
    method = best(found)
    gains = method.unseen_gain if found.deciding == "suspects" else method.gain
    return gains[found.deciding]


def chart(found: MethodComparison) -> str:
    """Draw the deciding score of each method beside that of the baseline."""
    start = deciding_share(found, found[found.baseline]).value
    marks = []
    for method in found.methods:
        share = deciding_share(found, method)
        text = f"{percent(share.value)}  ({between(share.interval)})"
        own = None if method.name == found.baseline else start
        marks.append(Mark(method.title, share.value, text, own))
    words = f"Accuracy of each method on {DECIDES[found.deciding]}"
    return strip(marks, Axis(0.0, 1.0, percent=True), words=words)


def _scores(found: MethodComparison) -> Table:
    """Return the accuracies of each method, and its gains over the baseline."""
    columns = [(name.replace("_", " "), MEANING[name]) for name in found.metrics]
    rows = []
    for method in found.methods:
        cells = [_cell(method.scores[name]) for name in found.metrics]
        rows.append((method.title, [*cells, Cell(percent(method.weights_kept))]))
        if method.gain:
            gains = [_gain(method.gain, name) for name in found.metrics]
            rows.append((f"gain of {method.title}", [*gains, Cell("")]))
    return Table([*columns, ("weights kept", "of those that can be pruned")], rows)


def _unseen(found: MethodComparison) -> Table:
    """Return the accuracies on held-out images, for suspects and for the others."""
    columns = [(part, f"{found.unseen_counts[part]} images") for part in PARTS]
    rows = []
    for method in found.methods:
        shares = [method.unseen.get(part) for part in PARTS]
        rows.append((method.title, [_cell(share) if share else Cell("–") for share in shares]))
        if method.unseen_gain:
            gains = [_gain(method.unseen_gain, part) for part in PARTS]
            rows.append((f"gain of {method.title}", gains))
    return Table(columns, rows)


def _cell(share: AccuracyShare) -> Cell:
    return Cell(percent(share.value), between(share.interval))


def _gain(gains: Mapping[str, tuple[float, Interval]], name: str) -> Cell:
    if name not in gains:
        return Cell("")
    points, interval = gains[name]
    return Cell(_points(points), between(interval, signed=True))


def _points(gain: float) -> str:
    return f"{100 * gain:+z.1f}".replace("-", "−")
