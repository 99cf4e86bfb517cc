"""DCWP beside pruning that knows no bias, and beside rewinding the weights."""

from __future__ import annotations

from ..recipes import published
from . import figures
from .figures import Panel, PlotCurve, through
from .item import DASH, Cells, Item, Page, Result, Results, cell, mean_sd_text
from .pages import FACTS, READING, cut, facts, figure, number, table

# -- the pruning table --------------------------------------------------------------------------------

METHODS = {
    "erm": "full network (ERM)",
    "dcwp": "DCWP",
    "grasp": "GraSP",
    "magnitude": "magnitude",
    "unspur-1": "unspur, first preset",
}
DATA = {  # recipes, the accuracy they are judged by, how to say it
    "cifar10": ("cifar10/", "average", "CIFAR-10"),
    "cifar10c/5pct": ("cifar10c/5pct-", "unbiased", "CIFAR10-C 5 %, unbiased accuracy"),
}


def _pruning_cells() -> Cells:
    found: Cells = {
        (data, kind): cell(f"{prefix}{kind}", seeds=2)
        for kind in METHODS
        for data, (prefix, *_) in DATA.items()
        if (data, kind) != ("cifar10c/5pct", "magnitude")
    }
    same = ("data.name=cifar10c", "data.ratio=5pct")
    found["cifar10c/5pct", "magnitude"] = cell("cifar10/magnitude", *same, seeds=2)
    return found


def _pruning(results: Results) -> Page:
    header = ["method", *FACTS, "cut", "published", "accuracy", "published"]
    parts = [f"Suspects of CIFAR-10 are those of an epoch ensemble. {READING}"]
    for data, (_, metric, title) in DATA.items():
        rows = []
        for kind, name in METHODS.items():
            result = results[data, kind]
            paper = [known[data].get(kind) for known in (published.PRUNED_AWAY, published.PRUNING)]
            cells = [
                cut(result),
                number(paper[0]),
                result.text("debiased", metric),
                number(paper[1]),
            ]
            rows.append([name, *facts(result), *cells])
        parts += [f"{title}:", table(header, rows)]
    return Page(parts)


PRUNING = Item("Pruning with and without an eye on the bias", _pruning_cells, _pruning)

# -- the weight-reset figure --------------------------------------------------------------------------

EVERY = "[100, 200, 300, 400, 500, 600, 700, 800, 900, 1000"
ON = ", 1200, 1400, 1600, 1800, 2000, 2200, 2400, 2600, 2800, 3000]"
# Ordinary training with SGD for 3,000 steps from the initial weights, with its iterates scored.
AGAIN = (
    *("finetune.start=initial", "finetune.steps=3000", "finetune.align=0", "finetune.up=1"),
    *("finetune.optimiser=sgd", "finetune.rate=0.1", "finetune.weight_decay=1e-4"),
    *("finetune.schedule=step", "finetune.decay_every=600", f"finetune.iterates={EVERY}{ON}"),
)


def _reset_cells() -> Cells:
    return {
        ("DCWP",): cell("cmnist/ablation-6", f"finetune.iterates={EVERY}]"),
        ("MRM_debias",): cell("cmnist/ablation-6", *AGAIN),
        # Fine-tuning under masks that cut nothing: ordinary training.
        ("ERM",): cell(
            "cmnist/ablation-6", "plan=grasp", "prune.how=magnitude", "prune.keep=1.0", *AGAIN
        ),
    }


def _reset(results: Results) -> Page:
    methods = {name: results[name,] for name in ("ERM", "MRM_debias", "DCWP")}
    header = ["method", *FACTS, "before", "pruned only", "at the end", "*oracle*"]
    return Page(
        [
            f"CMNIST 1 %, SGD, unbiased accuracy against iterations. {READING} The curves follow the test "
            "split, for evaluation alone: an *oracle* would stop at their highest point. ERM and MRM_debias "
            "(DCWP's masks, weights reset) train for 3,000 iterations; DCWP's mask is applied after 2,000 "
            "and followed by 1,000 of fine-tuning. The published figure gives no numbers: ERM is lowest, "
            "MRM_debias above it, DCWP highest.",
            figure("reset.svg", "Test accuracy (oracle) against iterations"),
            table(header, [_reset_row(name, each) for name, each in methods.items()]),
        ],
        {"reset.svg": figures.draw([_courses(methods)])},
    )


def _reset_row(name: str, result: Result) -> list[str]:
    scores = [result.text("debiased", "unbiased"), mean_sd_text(result.best("unbiased"))]
    return [name, *facts(result), *_stages(result), *scores]


def _stages(result: Result) -> list[str]:
    if result.cell.recipe.plan != "dcwp":
        return [DASH, DASH]
    return [result.text("ordinary", "unbiased"), result.text("pruned", "unbiased")]


def _courses(methods: dict[str, Result]) -> Panel:
    before = methods["DCWP"].cell.recipe.pretrain.steps
    curves = [_course(name, methods[name], 0) for name in ("ERM", "MRM_debias")]
    after = _course("DCWP", methods["DCWP"], before)
    jump = [
        (float(before), value)
        for model in ("ordinary", "pruned")
        if (value := methods["DCWP"].mean(model, "unbiased")) is not None
    ]
    curves.append(PlotCurve("DCWP", [*jump, *after.points]))
    return Panel(
        "Test accuracy by iteration (oracle)",
        "iteration",
        "unbiased accuracy",
        curves,
        mark=("mask applied", before),
    )


def _course(name: str, result: Result, first: int) -> PlotCurve:
    """Return the accuracy of every scored iterate, means over seeds."""
    by_step: dict[float, list[float]] = {}
    for run in result.runs:
        for step, found in run["extras"]["iterates"].items():
            by_step.setdefault(float(first + int(step)), []).append(found["unbiased"])
    return through(name, by_step)


RESET = Item("Resetting the weights", _reset_cells, _reset, extras=("iterates",))
