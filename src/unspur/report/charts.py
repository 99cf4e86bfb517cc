"""Small charts as SVG text. The same numbers give the same bytes.

Colours of text and axes come from the style sheet of the page. Its classes are `grid`, `tally` and `turn`
(lines), `tick` and `name` (text), `halo` and `over` (text over marks), `mark` and `mark open` (dots), `span`
(between dots), and `zone` (a part of an axis) with a kind of verdict.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from .palette import GROUPS, SERIES

Point = tuple[float, float]

DASHES = ("", "6 4", "2 3", "9 3 2 3", "4 2")
WIDE, HIGH = 420, 230
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 10, 24
MOST_POINTS = 300  # points drawn of one line
DOT = 4  # width of a point of a scatter plot


@dataclass(frozen=True)
class Line:
    """A named line."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True)
class Scale:
    """Map numbers to positions along an axis, linearly or by their logarithms."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (at - low) / (high - low) * (self.end - self.start)


def lines(
    series: Sequence[Line],
    *,
    words: str,
    percent: bool = False,
    mark: tuple[float, str] | None = None,
) -> str:
    """Draw lines over training steps.

    `words` describes the chart for screen readers. `mark` is a step to mark with a vertical line, and its
    name.
    """
    xs = [x for line in series for x, _ in line.points]
    ys = [y for line in series for _, y in line.points]
    across = Scale(0, max(xs, default=1) or 1, LEFT, WIDE - RIGHT)
    up = _upwards(ys, percent=percent)
    elements = [*_grid(across, up, percent=percent)]
    for number, line in enumerate(series):
        places = [(across(x), up(y)) for x, y in _thin(line.points)]
        elements.append(_polyline(places, number))
    if mark is not None:
        elements += _mark(across(mark[0]), mark[1])
    return svg(elements, WIDE, HIGH, words)


def swatch(number: int) -> str:
    """Draw the stroke of a line, for a legend."""
    return svg([_polyline([(1, 6), (27, 6)], number)], 28, 12, "", style="width:28px")


def cloud(
    places: Sequence[Point],
    groups: Sequence[int],
    names: Mapping[int, str],
    *,
    words: str,
    colours: Mapping[int, str] | None = None,
) -> str:
    """Draw a scatter plot. Each group has a colour and a shape; groups that form a cluster are labelled.

    `colours` gives the colour of each group, by default the colours of the palette in turn.
    """
    side = 320.0
    fitted = _fit_square(places, side)
    by_group = {
        group: [place for place, g in zip(fitted, groups, strict=True) if g == group]
        for group in sorted(set(groups))
    }
    colours = colours or {}
    marks = [_marks(points, group, colours.get(group)) for group, points in by_group.items()]
    return svg([*marks, *_labels(by_group, names, _width(fitted), side)], side, side, words)


def _labels(
    by_group: Mapping[int, Sequence[Point]], names: Mapping[int, str], width: float, side: float
) -> Iterable[str]:
    """Yield the names of compact groups, where there is room for them, inside a square."""
    taken: list[tuple[float, float, float]] = []
    for group, points in by_group.items():
        x, y = _middle(points)
        half = 4 * len(names[group]) + 2
        x = max(min(x, side - half), half)
        free = all(abs(x - tx) > half + th or abs(y - ty) > 14 for tx, ty, th in taken)
        if free and _width(points) < 0.7 * width:
            taken.append((x, y, half))
            yield label(x, y + 4, names[group], "halo", "middle")


def dot(group: int, colour: str | None = None) -> str:
    """Draw the mark of a group, for a legend."""
    return svg([_marks([(6.0, 6.0)], group, colour)], 12, 12, "", style="width:16px")


# -- elements -----------------------------------------------------------------------------------------


def svg(parts: Iterable[str], wide: float, high: float, words: str, *, style: str = "") -> str:
    """Return an SVG image; `words` describes it for screen readers, which skip it if that is empty."""
    accessibility = f'role="img" aria-label="{escape(words)}"' if words else 'aria-hidden="true"'
    style = f' style="{style}"' if style else ""
    return f'<svg viewBox="0 0 {wide:g} {high:g}" {accessibility}{style}>{"".join(parts)}</svg>'


def _polyline(places: Sequence[Point], number: int) -> str:
    colour, dash = SERIES[number % len(SERIES)], DASHES[number % len(DASHES)]
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    if len(places) == 1:
        (x, y) = places[0]
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" '
        f'stroke-linejoin="round" stroke-linecap="round"{dashed}/>'
    )


def label(x: float, y: float, words: str, kind: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def _upwards(ys: Sequence[float], *, percent: bool) -> Scale:
    """Return the vertical axis: 0 to 1 for shares, otherwise the range of the values."""
    start, end = HIGH - BOTTOM, TOP
    if percent:
        return Scale(0.0, 1.0, start, end)
    low, high = min(ys, default=0.0), max(ys, default=1.0)
    if low > 0 and high > 30 * low:
        return Scale(low, high, start, end, log=True)
    low = min(low, 0.0)
    return Scale(low, high if high > low else low + 1, start, end)


def _grid(across: Scale, up: Scale, *, percent: bool) -> Iterable[str]:
    for y in _ticks(up):
        at = up(y)
        yield f'<path d="M{LEFT} {at:.1f}H{WIDE - RIGHT}" class="grid"/>'
        yield label(LEFT - 6, at + 4, f"{100 * y:.0f} %" if percent else f"{y:.4g}", "tick", "end")
    for x in _ticks(across):
        yield label(
            across(x),
            HIGH - BOTTOM + 18,
            f"{x:,.0f}",
            "tick",
            "middle" if x < 0.9 * across.high else "end",
        )
    yield label(LEFT - 14, HIGH - BOTTOM + 18, "step", "tick", "end")


def _mark(x: float, name: str) -> list[str]:
    line = f'<path d="M{x:.1f} {TOP}V{HIGH - BOTTOM}" class="grid" stroke-dasharray="3 3"/>'
    near_end = x > WIDE / 2
    at, anchor = (x - 5, "end") if near_end else (x + 5, "start")
    return [line, label(at, TOP + 12, name, "tick over", anchor)]


def _ticks(scale: Scale) -> list[float]:
    """Return about five round numbers for ticks; powers of ten on a logarithmic scale."""
    if scale.log:
        first, last = math.ceil(math.log10(scale.low)), math.floor(math.log10(scale.high))
        if first < last:
            return [10.0**k for k in range(first, last + 1, 1 + (last - first) // 5)]
        powers = [m * 10.0**k for k in range(first - 1, last + 2) for m in (1, 2, 5)]
        return [power for power in powers if scale.low <= power <= scale.high]
    rough = (scale.high - scale.low) / 4
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= rough * 0.999)
    first = math.ceil(scale.low / step - 1e-9)
    last = math.floor(scale.high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def _thin(points: Sequence[Point]) -> Sequence[Point]:
    """Return at most about `MOST_POINTS` points, always with the last one."""
    every = math.ceil(len(points) / MOST_POINTS)
    return points if every <= 1 else [*points[:-1:every], points[-1]]


def _fit_square(places: Sequence[Point], side: float, *, margin: float = 8.0) -> list[Point]:
    """Move and scale points into a square without distortion."""
    xs, ys = [x for x, _ in places], [y for _, y in places]
    span = max(max(xs) - min(xs), max(ys) - min(ys)) or 1.0
    scale = (side - 2 * margin) / span
    left, top = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2
    return [(side / 2 + scale * (x - left), side / 2 + scale * (y - top)) for x, y in places]


def _middle(places: Sequence[Point]) -> Point:
    """Return the point of a group that is nearest to its median, as the place for a label."""
    xs, ys = sorted(x for x, _ in places), sorted(y for _, y in places)
    x, y = xs[len(xs) // 2], ys[len(ys) // 2]
    return min(places, key=lambda p: (p[0] - x) ** 2 + (p[1] - y) ** 2)


def _width(places: Sequence[Point]) -> float:
    """Return the median distance of points from their middle."""
    x, y = _middle(places)
    return sorted(math.hypot(px - x, py - y) for px, py in places)[len(places) // 2]


def _marks(places: Sequence[Point], group: int, colour: str | None = None) -> str:
    """Draw the points of a group as one path. A line of length 0 with a round or square cap is a dot."""
    colour, shape = colour or GROUPS[group % len(GROUPS)], group % 4
    if shape in (0, 1):
        path = "".join(f"M{x:.0f} {y:.0f}h0" for x, y in places)
        cap = "round" if shape == 0 else "square"
        width = DOT + 1 if shape == 0 else DOT
        how = f'stroke="{colour}" stroke-width="{width}" stroke-linecap="{cap}"'
    elif shape == 2:
        path = "".join(f"M{x:.0f} {y - 3:.0f}l3 5h-6z" for x, y in places)
        how = f'fill="{colour}"'
    else:
        path = "".join(f"M{x - 3:.0f} {y:.0f}h6m-3-3v6" for x, y in places)
        how = f'stroke="{colour}" stroke-width="1.6" fill="none"'
    return f'<path d="{path}" {how} opacity=".8"/>'
