"""Draw numbers on a common axis, one below the other, with the thresholds of a verdict, as SVG."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .charts import WIDE, Scale, label, svg

EDGE = 14  # left and right of the axis
ROW = 46
HEAD, FOOT = 30, 26  # above the first row, for names of zones; below the last, for numbers
LETTER = 6.6  # approximate width of a letter


@dataclass(frozen=True)
class Mark:
    """A number with its name, and `start`, a number to compare it with.

    `counts` says whether the verdict uses the number.
    """

    name: str
    value: float
    text: str
    start: float | None = None
    counts: bool = True


@dataclass(frozen=True)
class Zone:
    """A part of the axis: its end, the meaning of numbers in it, and the kind of verdict (a CSS class)."""

    end: float
    name: str = ""
    kind: str = "none"


@dataclass(frozen=True)
class Axis:
    """The range of the axis and its zones; `chance` is the value expected by chance."""

    low: float
    high: float
    zones: Sequence[Zone] = ()
    chance: float | None = None
    percent: bool = False

    def format(self, value: float) -> str:
        return f"{100 * value:.0f} %" if self.percent else f"{value:.2g}".replace("-", "−")


def strip(marks: Sequence[Mark], axis: Axis, *, words: str) -> str:
    """Draw each mark on its own line over the zones of the axis."""
    across = Scale(axis.low, axis.high, EDGE, WIDE - EDGE)
    foot = HEAD + ROW * len(marks)
    elements = list(_zones(axis, across))
    for number, mark in enumerate(marks):
        top = HEAD + ROW * number
        elements += [*_lines(axis, across, top), *_row(mark, across, top)]
    return svg([*elements, *_numbers(axis, across, foot)], WIDE, foot + FOOT, words)


def _zones(axis: Axis, across: Scale) -> Iterable[str]:
    """Draw the names of the zones above the first row, each over a bar in its colour."""
    for zone, left, right in _spans(axis, across):
        if zone.name:
            yield _band(zone, left, right, HEAD - 8, 4)
            half = LETTER * len(zone.name) / 2
            x = min(max((left + right) / 2, EDGE + half), WIDE - EDGE - half)
            yield label(x, HEAD - 14, zone.name, "tick", "middle")


def _lines(axis: Axis, across: Scale, top: float) -> Iterable[str]:
    """Draw zones, thresholds and the chance level behind the mark of a row, but not behind its name."""
    for zone, left, right in _spans(axis, across):
        yield _band(zone, left, right, top + 22, 20)
    for zone in axis.zones[:-1]:
        yield f'<path d="M{across(zone.end):.1f} {top + 22}v20" class="turn"/>'
    if axis.chance is not None:
        yield f'<path d="M{across(axis.chance):.1f} {top + 25}v14" class="tally"/>'


def _spans(axis: Axis, across: Scale) -> Iterable[tuple[Zone, float, float]]:
    """Yield each zone with its left and right end in the picture."""
    start = axis.low
    for zone in axis.zones:
        yield zone, across(start), across(zone.end)
        start = zone.end


def _band(zone: Zone, left: float, right: float, top: float, high: float) -> str:
    return (
        f'<rect x="{left:.1f}" y="{top:g}" width="{right - left:.1f}" height="{high:g}" '
        f'class="zone {zone.kind}"/>'
    )


def _row(mark: Mark, across: Scale, top: float) -> Iterable[str]:
    line, x = top + 32, across(min(max(mark.value, across.low), across.high))
    yield f'<path d="M{EDGE} {line}H{WIDE - EDGE}" class="grid"/>'
    yield label(EDGE, top + 15, mark.name, "name", "start")
    yield label(WIDE - EDGE, top + 15, mark.text, "name", "end")
    if mark.start is not None:
        start = across(mark.start)
        yield f'<path d="M{start:.1f} {line}H{x:.1f}" class="span"/>'
        yield f'<circle cx="{start:.1f}" cy="{line}" r="5" class="mark open"/>'
    kind = "mark" if mark.counts else "mark open"
    yield f'<circle cx="{x:.1f}" cy="{line}" r="6.5" class="{kind}"/>'


def _numbers(axis: Axis, across: Scale, foot: float) -> Iterable[str]:
    """Label the thresholds, the chance level and the ends of the axis, where there is room."""
    thresholds = [zone.end for zone in axis.zones[:-1]]
    chance = [] if axis.chance is None else [axis.chance]
    taken: list[float] = []
    for value in (*thresholds, *chance, axis.low, axis.high):
        x = across(value)
        if all(abs(x - other) > 34 for other in taken):
            taken.append(x)
            ends = {axis.low: "start", axis.high: "end"}
            yield label(x, foot + 17, axis.format(value), "tick", ends.get(value, "middle"))
