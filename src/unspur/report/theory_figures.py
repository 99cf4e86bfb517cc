"""The figures of the theory report, drawn only from the numbers in theory.json.

The same numbers give the same bytes. Line styles and markers repeat what colours show (see palette). Text and
axes are drawn in INK, so that a page can replace this one colour with its own.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..extras import need
from .palette import BLUE, GREEN, INK, ORANGE, RED, SERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Numbers = dict[str, Any]

MARKERS = ("o", "s", "^", "D", "v")
LOWEST = 1e-6  # smaller errors are not drawn

FORMULAS = {
    "model": r"$O=w_{inv}\,m_{inv}+\sum_i w_i\,m_i\,Z_i,\quad m_j\sim\mathrm{Bern}(\pi_j),"
    r"\quad P(Z_i=Y)=p$",
    "bounds": r"$\ell(\pi)\leq 2\,\exp\left(-\frac{2\,(\pi_{inv}+(2p-1)\sum_i\alpha_i\pi_i)^2}"
    r"{4\sum_i\alpha_i^2+1}\right)$",
    "mixtures": r"$\ell(\pi)\leq 2\,\exp\left(-\frac{2\,(\pi_{inv}+(2p(1-\varphi)-1)"
    r"\sum_i\alpha_i\pi_i)^2}{4\sum_i\alpha_i^2+1}\right),\quad 0\leq\varphi\leq 1-\frac{1}{2p}$",
    "corners": r"$P(O\leq 0)\leq\exp\left(-\frac{2\,\max(\mu,0)^2}{4\sum_i\alpha_i^2+1}\right),"
    r"\quad\mu=\pi_{inv}+(2p-1)\sum_i\alpha_i\pi_i$",
    "flows": r"$\dot{w}_{inv}=e^{-w_{inv}}\prod_i g(w_i),\quad"
    r"\dot{w}_i=e^{-w_{inv}}\,h(w_i)\prod_{j\neq i}g(w_j),\quad"
    r"g,h=p\,e^{-w}\pm(1-p)\,e^{w}$",
    "ties": r"$\ell=\frac{1}{2}E\,[1-Y\,\mathrm{sgn}(O)]=P(O<0\,|\,Y=1)+\frac{1}{2}\,P(O=0\,|\,Y=1)$",
    "conserved": r"$e^{w_{inv}}\,h(w_i)=C_i\quad\Longrightarrow\quad"
    r"e^{w_i}=\frac{2p}{c+\sqrt{c^2+4p(1-p)}},\quad c=C_i\,e^{-w_{inv}}$",
    "simulation": r"$\min_w\ \mathrm{mean}\ \log\left(1+e^{-Y\,w^{\top}X}\right),\quad"
    r"\alpha=\mathrm{mean}_i(w_i)\,/\,w_{inv}$",
    "pruning": r"$\min_{0\leq\pi\leq 1}\ E\,[\mathrm{loss}(O)]+\lambda\sum_j\pi_j,\quad"
    r"\varphi^{*}=1-\sigma(w_i)/p$",
    "cosines": r"$E\cos(h^b,h^d)=\frac{1}{D+1},\quad"
    r"E\cos(h^b_i,h^b_j)=\frac{1+D\,(2p-1)^2}{D+1}$",
}

STYLE = {
    "svg.hashsalt": "unspur",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.15,
    "grid.color": INK,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.8,
    "lines.markersize": 4,
    "savefig.transparent": True,
}


def draw(name: str, numbers: Numbers) -> str:
    """Draw the figure with this name as SVG, with its formula above it."""
    with need("matplotlib").rc_context(STYLE):
        figure: Figure = need("matplotlib.figure").Figure(figsize=(9.2, 4.3), layout="constrained")
        figure.suptitle(FORMULAS[name], fontsize=12)
        FIGURES[name](figure, numbers)
        return _svg(figure)


def formula(name: str) -> str:
    """Draw a formula as SVG, cropped to its size."""
    with need("matplotlib").rc_context(STYLE):
        figure: Figure = need("matplotlib.figure").Figure(figsize=(0.1, 0.1))
        figure.text(0, 0, FORMULAS[name], fontsize=12)
        return _svg(figure, bbox_inches="tight", pad_inches=0.03)


def inline(svg: str, prefix: str) -> str:
    """Return the SVG for use inside a page: with unique ids, and INK replaced by the text colour."""
    svg = re.sub(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r'((?:xlink:)?href="|url\()#', rf"\1#{prefix}-", svg)
    return svg.replace(INK, "currentColor").strip()


def on_white(svg: str) -> str:
    """Return the SVG with a white background, for use as a separate file."""
    return re.sub(
        r"(<svg\b[^>]*>)", r'\1<rect width="100%" height="100%" fill="#fff"/>', svg, count=1
    )


def _svg(figure: Figure, **how: Any) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "unspur"}, **how)
    return buffer.getvalue()


# One function for each figure


def _bounds(figure: Figure, n: Numbers) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    _train_and_test(left, n["ratio"], n["over_ratio"])
    left.set(
        title=f"nothing pruned, D = {n['d']}, p = {n['p']:g}", ylabel=r"loss $\ell$, and its bound"
    )
    left.set_xlabel(r"weight ratio $\alpha$ (the same for all spurious bits)")
    _train_and_test(right, n["kept"], n["over_kept"])
    right.set_title(rf"$\pi_{{inv}}$ = {n['kept_invariant']:g}, $\alpha$ = {n['kept_ratio']:g}")
    right.set_xlabel(r"probability $\pi_i$ to keep a spurious weight")
    left.set(yscale="log", ylim=(LOWEST, 4))
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=6)


def _train_and_test(axes: Axes, x: Sequence[float], parts: Numbers) -> None:
    for name, colour, marker in (("train", BLUE, "o"), ("test", RED, "s")):
        part = parts[name]
        axes.plot(x, _visible(part["bound"]), "--", color=colour, label=f"{name}: bound")
        axes.plot(x, _visible(part["loss"]), color=colour, label=f"{name}: exact")
        every = slice(None, None, max(len(x) // 10, 1))
        _dots(axes, x[every], _visible(part["sampled"][every]), colour, marker, f"{name}: sampled")


def _mixtures(figure: Figure, n: Numbers) -> None:
    left, right = figure.subplots(1, 2)
    for curve, colour, marker in zip(n["curves"], SERIES, MARKERS, strict=False):
        label = f"p = {curve['p']:g}"
        left.plot(
            curve["phi"],
            curve["bound"],
            "--",
            marker=marker,
            markevery=[-1],
            color=colour,
            label=label,
        )
        right.plot(curve["phi"], curve["loss"], color=colour)
        every = slice(None, None, max(len(curve["phi"]) // 8, 1))
        _dots(right, curve["phi"][every], curve["sampled"][every], colour, marker, None)
    left.axhline(n["test"]["bound"], color=INK, linestyle=":", label="test data")
    right.axhline(n["test"]["loss"], color=INK, linestyle=":")
    title = rf"D = {n['d']}, $\alpha$ = {n['ratio']:g}, all $\pi_j$ = {n['kept']:g}"
    left.set(ylabel="bound", title=title)
    right.set(ylabel=r"loss $\ell$: exact, and sampled (marks)", title=title)
    for axes in (left, right):
        axes.set_xlabel(r"share $\varphi$ of spurious bits against the label")
        axes.set_ylim(bottom=0)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)


def _corners(figure: Figure, n: Numbers) -> None:
    axes = figure.subplots()
    axes.plot(n["ratio"], n["error"], color=BLUE, label="exact error")
    axes.plot(n["ratio"], n["bound"], "--", color=RED, label="the paper's bound")
    axes.plot(n["ratio"], n["one_sided"], ":", color=GREEN, label="one-sided bound", linewidth=2.4)
    if n["fails_up_to"] is not None:
        low = [r for r in n["ratio"] if r <= n["fails_up_to"]]
        axes.fill_between(
            low, n["bound"][: len(low)], n["error"][: len(low)], color=ORANGE, alpha=0.3,
            linewidth=0, label="the bound is below the error",
        )  # fmt: skip
    axes.axvline(n["mean_is_negative_below"], color=INK, linewidth=0.9)
    axes.annotate(r"$\mu=0$", (n["mean_is_negative_below"] - 0.015, 2.1), ha="right")
    axes.set(
        title=f"nothing pruned, D = {n['d']}, p = {n['p']:g}", ylabel=r"loss $\ell$, and its bound"
    )
    axes.set_xlabel(r"weight ratio $\alpha$ (the same for all spurious bits)")
    axes.set_ylim(-0.05, 2.25)
    axes.legend(loc="upper right")


def _flows(figure: Figure, n: Numbers) -> None:
    left, right = figure.subplots(1, 2)
    example = next(run for run in n["runs"] if run["p"] == 0.9)
    t = n["t"][1:]
    for key, colour, label in (("w_inv", BLUE, r"$w_{inv}$"), ("w_sp", RED, r"$w_i$")):
        left.plot(t, example[key][1:], color=colour, label=label)
        left.plot(t, example[f"{key}_lower"][1:], "--", color=colour, label=f"{label}, lower bound")
    left.plot(t, example["w_inv_upper"][1:], "-.", color=BLUE, label=r"$w_{inv}$, upper bound")
    left.axhline(
        example["w_sp_limit"], color=INK, linestyle=":", label=r"$\frac{1}{2}\log\frac{p}{1-p}$"
    )
    left.set(
        title=f"weights, D = {n['d']}, p = 0.9", ylabel="weight", xscale="log", xlabel="time t"
    )
    left.legend(loc="upper left")
    for run, colour, marker in zip(n["runs"], SERIES, MARKERS, strict=False):
        how = {"color": colour, "marker": marker, "markevery": max(len(t) // 8, 1)}
        right.plot(t, run["ratio"][1:], label=f"p = {run['p']:g}", **how)
        right.plot(t, run["ratio_lower"][1:], "--", color=colour, linewidth=1)
    right.plot([], [], "--", color=INK, linewidth=1, label="lower bound")
    right.set(title="weight ratio", xscale="log", xlabel="time t", ylim=(0, 1))
    right.set_ylabel(r"$\alpha=w_i\,/\,w_{inv}$")
    right.legend(loc="upper left")


def _simulation(figure: Figure, n: Numbers) -> None:
    left, right = figure.subplots(1, 2)
    for run, colour, marker in zip(n["runs"], SERIES, MARKERS, strict=False):
        for axes, key in ((left, "ratio"), (right, "accuracy")):
            _band(axes, n["p"], run[key], colour, marker, run["rule"])
    left.axhline(1, color=INK, linestyle=":")
    left.set_ylabel(r"weight ratio $\alpha$")
    right.set(ylabel="unbiased accuracy", ylim=(0.5, 1.02))
    for axes in (left, right):
        axes.set(xlabel="p: how often a spurious bit agrees with the label")
        axes.set_title(f"D = {n['d']}, mean ± sd over {len(n['seeds'])} seeds")
    left.legend(loc="upper left")
    right.legend(loc="lower left")


def _pruning(figure: Figure, n: Numbers) -> None:
    left, right = figure.subplots(1, 2)
    for run, colour, marker in zip(n["runs"], SERIES, MARKERS, strict=False):
        _band(left, n["phi"], run["spurious"], colour, marker, run["objective"])
        _band(right, n["phi"], run["accuracy"], colour, marker, run["objective"])
    left.axvline(n["phi"][-1], color=INK, linestyle=":")
    left.annotate(r" $1-\frac{1}{2p}$", (n["phi"][-1], 0.5), fontsize=12)
    left.set_xlim(right=1.16 * n["phi"][-1])
    critical = [each for row in n["critical"] for each in row]
    left.axvspan(min(critical), max(critical), color=INK, alpha=0.08, linewidth=0)
    left.annotate(r"$\varphi^{*}$", (sum(critical) / len(critical), 0.02), ha="center", fontsize=12)
    right.axhline(n["unpruned_accuracy"], color=INK, linestyle=":", label="unpruned")
    left.set(ylabel=r"spurious weights kept: mean $\pi_i$", ylim=(-0.03, 1.05))
    right.set(ylabel="unbiased accuracy after pruning", ylim=(0.5, 1.02))
    for axes in (left, right):
        axes.set_title(f"p = {n['p']:g}, mean ± sd over {len(n['critical'])} seeds")
        axes.set_xlabel(r"share $\varphi$ of spurious bits against the label")
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=5)


def _cosines(figure: Figure, n: Numbers) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, rows, key in ((left, n["over_p"], "p"), (right, n["over_kept"], "kept")):
        x = [row[key] for row in rows]
        for kind, colour, marker, label in (
            ("among", BLUE, "o", "two biased samples"),
            ("across", RED, "s", "a biased and an unbiased one"),
        ):
            axes.plot(x, [row[kind] for row in rows], color=colour, label=label)
            sampled = [row[f"sampled_{kind}"][0] for row in rows]
            _dots(axes, x, sampled, colour, marker, f"{label}, sampled")
    left.set(xlabel="p", ylabel="mean cosine of their features", ylim=(0, 1.05))
    left.set_title(f"D = {n['d']}, all columns kept")
    right.set(xlabel="spurious columns kept", title=f"p = {n['p']:g}")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)


def _band(
    axes: Axes, x: Sequence[float], values: Numbers, colour: str, marker: str, label: str
) -> None:
    """Draw a mean with a band of one standard deviation on both sides."""
    low = [mean - sd for mean, sd in zip(values["mean"], values["sd"], strict=True)]
    high = [mean + sd for mean, sd in zip(values["mean"], values["sd"], strict=True)]
    axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.plot(x, values["mean"], marker=marker, color=colour, label=label)


def _dots(
    axes: Axes, x: Sequence[float], y: Sequence[float], colour: str, marker: str, label: str | None
) -> None:
    axes.plot(x, y, marker, color=colour, markerfacecolor="none", markersize=6, label=label)


def _visible(values: Sequence[float]) -> list[float]:
    """Replace values below `LOWEST` by NaN, so that they are gaps on a logarithmic axis."""
    return [value if value >= LOWEST else float("nan") for value in values]


FIGURES: dict[str, Callable[[Figure, Numbers], None]] = {
    "bounds": _bounds,
    "mixtures": _mixtures,
    "corners": _corners,
    "flows": _flows,
    "simulation": _simulation,
    "pruning": _pruning,
    "cosines": _cosines,
}
