"""Charts of each training: losses and accuracies from the logs of the stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import charts
from .charts import Line

TITLES = {
    "loss": "total loss",
    "cross_entropy": "cross entropy",
    "gce": "generalised cross entropy",
    "unseen_accuracy": "accuracy",
    "heldout_suspects": "suspects",
    "heldout_others": "others",
}
NOT_LOSSES = {"step", "rate", "seconds", "setup_seconds", "loss"}
WATCHED = ("unseen_accuracy", "heldout_suspects", "heldout_others")


@dataclass(frozen=True)
class Chart:
    """A picture, its title and its legend."""

    title: str
    picture: str
    legend: list[tuple[str, str]]


def charts_of(
    stage: str, log: Sequence[Mapping[str, Any]], *, chosen: int | None = None
) -> list[Chart]:
    """Return the charts of a training stage: loss, held-out accuracy, error on suspects and others.

    `chosen` is the selected step, which the charts mark.
    """
    names = {name for row in log for name in row} - NOT_LOSSES - set(WATCHED)
    losses = [_line(log, name) for name in ("loss", *sorted(names))]
    losses = [line for line in losses if line.points]
    if len(losses) == 2:  # the total loss and its only part are equal
        losses = losses[:1]
    mark = (float(chosen), "selected") if chosen is not None else None
    accuracy = _line(log, "unseen_accuracy")
    errors = [_line(log, name) for name in WATCHED[1:]]
    stage_charts = []
    if losses:
        stage_charts.append(_chart(f"{stage}: training loss", losses, mark))
    if accuracy.points:
        stage_charts.append(
            _chart(f"{stage}: accuracy on held-out images", [accuracy], mark, percent=True)
        )
    if all(line.points for line in errors):
        stage_charts.append(
            _chart(
                f"{stage}: held-out error (1 − probability of the true class)",
                errors,
                mark,
                percent=True,
            )
        )
    return stage_charts


def _line(log: Sequence[Mapping[str, Any]], name: str) -> Line:
    points = [
        (float(row["step"]), float(row[name])) for row in log if name in row and "step" in row
    ]
    return Line(TITLES.get(name, name.replace("_", " ")), points)


def _chart(
    title: str,
    series: list[Line],
    mark: tuple[float, str] | None,
    *,
    percent: bool = False,
) -> Chart:
    picture = charts.lines(series, words=_words(title, series, percent), percent=percent, mark=mark)
    legend = [(charts.swatch(number), line.name) for number, line in enumerate(series)]
    return Chart(title, picture, legend if len(series) > 1 else [])


def _words(title: str, series: Sequence[Line], percent: bool) -> str:
    """Describe the chart in words."""

    def format_value(value: float) -> str:
        return f"{100 * value:.1f} %" if percent else f"{value:.3g}"

    parts = [
        f"{line.name} from {format_value(line.points[0][1])} at step {line.points[0][0]:.0f} "
        f"to {format_value(line.points[-1][1])} at step {line.points[-1][0]:.0f}"
        for line in series
    ]
    return f"{title}: {'; '.join(parts)}."
