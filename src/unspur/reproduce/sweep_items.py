"""Accuracy and share of weights cut, for different sparsity penalties and numbers of mask steps."""

from __future__ import annotations

from . import figures
from .figures import Panel, PlotCurve, through
from .item import DASH, Cells, Item, Page, Result, Results, cell
from .pages import FACTS, cut, facts, figure, legend, metric_name, table

CONTROL = ("plan=control", "control.spread=global")
HOW: dict[str, tuple[str, tuple[str, ...]]] = {
    "DCWP": ("dcwp", ()),
    "unspur, first preset": ("unspur-1", ()),
    "magnitude": ("dcwp", (*CONTROL, "control.how=magnitude")),
    "random": ("dcwp", ("plan=control", "control.how=random")),
}
BEFORE = ("DCWP before fine-tuning", "DCWP", "pruned")
PRESSURES = {
    "cmnist/1pct": ("1e-8", "1e-6", "1e-7", "1e-9", "1e-5"),
    "cifar10c/1pct": ("1e-9", "1e-7", "1e-8", "1e-6", "1e-10"),
}
TITLES = {"cmnist/1pct": "CMNIST 1 %", "cifar10c/1pct": "CIFAR10-C 1 %", "bffhq/1pct": "Faces 1 %"}

# -- sparsity -----------------------------------------------------------------------------------------


def _sparsity_cells() -> Cells:
    found: Cells = {(data, "ERM", ""): cell(f"{data}-erm", seeds=2) for data in PRESSURES}
    for data, pressures in PRESSURES.items():
        for name, (kind, changes) in HOW.items():
            for pressure in pressures:
                changed = (f"prune.sparsity={pressure}", *changes)
                found[data, name, pressure] = cell(f"{data}-{kind}", *changed, seeds=2)
    return found


def _sparsity(results: Results) -> Page:
    header = ["masks", "λ", *FACTS, "weights cut", "cut, without padding weights", "accuracy"]
    header.append("before fine-tuning")
    parts = [
        f"{metric_name('unbiased')} against the share of weights that are cut. Magnitude and random masks "
        "cut as many weights as DCWP's learned masks with the same λ, in total (magnitude) or in every layer "
        "(random), and are fine-tuned in the same way.",
        legend(
            "*λ*: the weight of the sparsity penalty.",
            "*cut, without padding weights*: the share among weights that read more than padding. In the "
            "last layers of ResNet-18 an image of 32 pixels is a single position, so most weights of a 3×3 "
            "kernel read only the zeros around it.",
        ),
        figure("sparsity.svg", "Accuracy against the share of weights that are cut"),
    ]
    for data, pressures in PRESSURES.items():
        ordered = sorted(pressures, key=float)
        rows = [["none (ERM)", DASH, *facts(erm := results[data, "ERM", ""]), "0.0", "0.0"]]
        rows[0] += [erm.text("debiased", "unbiased"), DASH]
        rows += [_row(results[data, how, p], how, p) for how in HOW for p in ordered]
        parts += [f"{TITLES[data]}:", table(header, rows)]
    return Page(parts, {"sparsity.svg": figures.draw([_trade(results, d) for d in PRESSURES])})


def _row(result: Result, how: str, pressure: str) -> list[str]:
    return [
        how,
        pressure,
        *facts(result),
        cut(result),
        cut(result, "reachable"),
        result.text("debiased", "unbiased"),
        result.text("pruned", "unbiased"),
    ]


def _trade(results: Results, data: str) -> Panel:
    curves = []
    for name, how, model in (*((how, how, "debiased") for how in HOW), BEFORE):
        by_pressure = [results[data, how, pressure] for pressure in PRESSURES[data]]
        points = [place for each in by_pressure if (place := _place(each, model))]
        curves.append(PlotCurve(name, sorted(points)))
    erm = results[data, "ERM", ""].mean("debiased", "unbiased")
    level = None if erm is None else ("ERM", erm)
    return Panel(TITLES[data], "weights cut, per cent", "unbiased accuracy", curves, level)


def _place(result: Result, model: str) -> tuple[float, float] | None:
    density, accuracy = result.mean("density", "overall"), result.mean(model, "unbiased")
    return None if density is None or accuracy is None else (100 * (1 - density), accuracy)


SPARSITY = Item("Accuracy against the share of weights cut", _sparsity_cells, _sparsity)

# -- iterations ---------------------------------------------------------------------------------------

STEPS = ("2000", "500", "1000", "1500")
SCORED = {  # metric and number of seeds
    "cmnist/1pct": ("unbiased", 4),
    "cifar10c/1pct": ("unbiased", 2),
    "bffhq/1pct": ("conflicting", 4),
}


def _iterations_cells() -> Cells:
    return {
        (data, steps): cell(f"{data}-dcwp", f"prune.steps={steps}", seeds=seeds)
        for steps in STEPS
        for data, (_, seeds) in SCORED.items()
    }


def _iterations(results: Results) -> Page:
    header = ["data", "steps of mask learning", *FACTS, "accuracy", "before fine-tuning"]
    header.append("weights cut")
    rows = [
        _iterations_row(data, results[data, steps])
        for data in SCORED
        for steps in sorted(STEPS, key=int)
    ]
    return Page(
        [
            "DCWP with different numbers of steps for learning the masks: accuracy after fine-tuning (on "
            "conflicting images for the faces), and the share of weights cut. The published figure has no "
            "numbers; in it both increase with the number of steps on all three data sets. It may show "
            "networks before fine-tuning, which the released code scores during the search.",
            legend(),
            figure(
                "iterations.svg", "Accuracy and share of weights cut against steps of mask learning"
            ),
            table(header, rows),
        ],
        {"iterations.svg": figures.draw([_searched(results, data) for data in SCORED])},
    )


def _iterations_row(data: str, result: Result) -> list[str]:
    metric, _ = SCORED[data]
    scores = [result.text("debiased", metric), result.text("pruned", metric), cut(result)]
    return [TITLES[data], f"{result.cell.recipe.prune.steps:,}", *facts(result), *scores]


def _searched(results: Results, data: str) -> Panel:
    metric, _ = SCORED[data]
    by_steps = {float(r.cell.recipe.prune.steps): r for r in (results[data, s] for s in STEPS)}
    accuracy, before = (
        {x: list(r.by_seed(model, metric).values()) for x, r in by_steps.items()}
        for model in ("debiased", "pruned")
    )
    cut_shares = {
        x: [1 - density for density in r.by_seed("density", "overall").values()]
        for x, r in by_steps.items()
    }
    title = TITLES[data] + (", conflicting" if metric == "conflicting" else "")
    curves = [through("accuracy", accuracy), through("before fine-tuning", before)]
    curves.append(through("weights cut", cut_shares))
    return Panel(title, "steps of mask learning", "per cent", curves)


ITERATIONS = Item("Number of steps for learning the masks", _iterations_cells, _iterations)
