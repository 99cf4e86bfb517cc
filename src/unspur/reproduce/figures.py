"""Draw figures: curves in panels, and scatter plots of samples. The same numbers give the same bytes."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from ..errors import UnspurError
from ..extras import need
from ..report import charts
from ..report.palette import GREY, INK, SERIES
from ..report.theory_figures import MARKERS, STYLE, on_white
from ..training.metrics import mean_sd

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIDE, GAP, HEAD = 320, 16, 26  # side of a map, gap between maps, height of titles
STROKES = ("-", "--", ":", "-.", "-")
HALO = "font-size:13px;paint-order:stroke;stroke:#fff;stroke-width:3px"
TEXT = f"font-family:'DejaVu Sans',Verdana,sans-serif;fill:{INK}"


@dataclass(frozen=True)
class PlotCurve:
    """A named line through points; `spread` is the standard deviation at each point."""

    name: str
    points: Sequence[tuple[float, float]]
    spread: Sequence[float] = ()


def through(name: str, values: Mapping[float, Sequence[float]]) -> PlotCurve:
    """Return a curve through the means of the values at each x, with the spread if all points have one."""
    found = [(x, *mean_sd(list(values[x]))) for x in sorted(values) if values[x]]
    spread = [sd for *_, sd in found if sd is not None]
    points = [(x, mean) for x, mean, _ in found]
    return PlotCurve(name, points, spread if len(spread) == len(points) else ())


@dataclass(frozen=True)
class Panel:
    """Curves in one plot, with per cent on the vertical axis.

    `level` is a horizontal line to compare with, `mark` a vertical one, each with its name.
    """

    title: str
    across: str
    up: str
    curves: Sequence[PlotCurve]
    level: tuple[str, float] | None = None
    mark: tuple[str, float] | None = None


def draw(panels: Sequence[Panel]) -> str:
    """Draw panels as SVG, three in a row; curves with the same name have the same style."""
    try:
        plotting = need("matplotlib.figure")
    except ModuleNotFoundError as error:
        raise UnspurError(str(error)) from error
    wide = min(len(panels), 3)
    high = -(-len(panels) // wide)
    with need("matplotlib").rc_context(STYLE):
        size = (max(4.6 * wide, 6.4), 3.6 * high + 0.5)
        figure: Figure = plotting.Figure(figsize=size, layout="constrained")
        every = [*figure.subplots(high, wide, squeeze=False).ravel()]
        _fill(every, panels)
        _legend(figure, every)
        return on_white(_svg(figure))


def _fill(every: Sequence[Axes], panels: Sequence[Panel]) -> None:
    names = list(dict.fromkeys(curve.name for panel in panels for curve in panel.curves))
    for axes, panel in zip(every, panels, strict=False):
        _panel(axes, panel, names)
    for axes in every[len(panels) :]:
        axes.set_axis_off()


def _legend(figure: Figure, every: Sequence[Axes]) -> None:
    handles = {
        label: handle
        for axes in every
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if handles:
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5)


def _panel(axes: Axes, panel: Panel, names: list[str]) -> None:
    for curve in panel.curves:
        _curve(axes, curve, names.index(curve.name))
    if panel.level is not None:
        name, value = panel.level
        axes.axhline(100 * value, color=GREY, linestyle=(0, (1, 2)), label=name)
    if panel.mark is not None:
        name, at = panel.mark
        axes.axvline(at, color=GREY, linewidth=1, linestyle="--")
        axes.annotate(name, (at, 0.02), xycoords=("data", "axes fraction"), color=GREY, fontsize=8)
    if not any(curve.points for curve in panel.curves):
        axes.text(0.5, 0.5, "not run", transform=axes.transAxes, ha="center", color=GREY)
    axes.set(title=panel.title, xlabel=panel.across, ylabel=panel.up)


def _curve(axes: Axes, curve: PlotCurve, number: int) -> None:
    if not curve.points:
        return
    how: dict[str, Any] = {
        "color": SERIES[number % len(SERIES)],
        "linestyle": STROKES[number % len(STROKES)],
        "marker": MARKERS[number % len(MARKERS)],
    }
    x = [x for x, _ in curve.points]
    y = [100 * y for _, y in curve.points]
    axes.plot(x, y, label=curve.name, **how)
    if curve.spread:
        spread = [100 * each for each in curve.spread]
        low = [a - b for a, b in zip(y, spread, strict=True)]
        high = [a + b for a, b in zip(y, spread, strict=True)]
        axes.fill_between(x, low, high, color=how["color"], alpha=0.15, linewidth=0)


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "unspur"})
    return buffer.getvalue()


# -- maps ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Colouring:
    """The colouring of all maps: a title, the group of each sample, the names of the groups."""

    title: str
    groups: Sequence[int]
    names: Sequence[str]


def maps(places: Mapping[str, Sequence[charts.Point]], rows: Sequence[Colouring]) -> str:
    """Draw maps of the same samples: one column per title in `places`, one row per colouring."""
    parts = [
        _map(points, row, column_of * (SIDE + GAP), HEAD + row_of * (SIDE + HEAD), title)
        for row_of, row in enumerate(rows)
        for column_of, (title, points) in enumerate(places.items())
    ]
    wide = len(places) * (SIDE + GAP) - GAP
    high = HEAD + len(rows) * (SIDE + HEAD) - HEAD
    style = f"<style>text{{{TEXT}}}.halo{{{HALO}}}</style>"
    return on_white(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}">'
        f"{style}{''.join(parts)}</svg>\n"
    )


def _map(points: Sequence[charts.Point], row: Colouring, left: int, top: int, title: str) -> str:
    named = {g: row.names[g] if g < len(row.names) else str(g) for g in sorted(set(row.groups))}
    cloud = charts.cloud(points, row.groups, named, words="")
    place = f'x="{left}" y="{top}" width="{SIDE}" height="{SIDE}" overflow="visible"'
    placed = cloud.replace("<svg ", f"<svg {place} ", 1)
    words = escape(f"{title}, {row.title}")
    return f'<text x="{left + 6}" y="{top - 8}" font-size="13">{words}</text>{placed}'
