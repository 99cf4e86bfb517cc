"""Compare DCWP with pruning that ignores the shortcut, and with resetting the weights after pruning."""

from __future__ import annotations

from ..recipes import published
from . import figures
from .figures import Panel, PlotCurve, through
from .item import DASH, Cells, Item, Page, Result, Results, cell, mean_sd_text
from .pages import FACTS, ORACLE, PUBLISHED, cut, facts, figure, legend, number, table

# -- the pruning table --------------------------------------------------------------------------------

METHODS = {
    "erm": "full network (ERM)",
    "dcwp": "DCWP",
    "grasp": "GraSP",
    "magnitude": "magnitude",
    "unspur-1": "unspur, first preset",
}
DATA = {  # prefix of the recipes, metric, title
    "cifar10": ("cifar10/", "average", "CIFAR-10, average accuracy"),
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
    header = ["method", *FACTS, "weights cut", "published", "accuracy", "published"]
    parts = [
        "DCWP learns on suspects which weights to cut. GraSP and *magnitude* do not use suspects: they keep "
        "the weights that preserve the gradient flow, or the largest weights. CIFAR-10 has no planted "
        "shortcut; its suspects are mined with an epoch ensemble.",
        legend(PUBLISHED),
    ]
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


PRUNING = Item("DCWP compared with ordinary pruning", _pruning_cells, _pruning)

# -- the weight-reset figure --------------------------------------------------------------------------

EVERY = "[100, 200, 300, 400, 500, 600, 700, 800, 900, 1000"
ON = ", 1200, 1400, 1600, 1800, 2000, 2200, 2400, 2600, 2800, 3000]"
# Ordinary training with SGD for 3,000 steps from the initial weights; the listed steps are scored.
AGAIN = (
    *("finetune.start=initial", "finetune.steps=3000", "finetune.align=0", "finetune.up=1"),
    *("finetune.optimiser=sgd", "finetune.rate=0.1", "finetune.weight_decay=1e-4"),
    *("finetune.schedule=step", "finetune.decay_every=600", f"finetune.iterates={EVERY}{ON}"),
)


def _reset_cells() -> Cells:
    return {
        ("DCWP",): cell("cmnist/ablation-6", f"finetune.iterates={EVERY}]"),
        ("MRM_debias",): cell("cmnist/ablation-6", *AGAIN),
        # Fine-tuning with masks that cut nothing is ordinary training.
        ("ERM",): cell(
            "cmnist/ablation-6", "plan=grasp", "prune.how=magnitude", "prune.keep=1.0", *AGAIN
        ),
    }


def _reset(results: Results) -> Page:
    methods = {name: results[name,] for name in ("ERM", "MRM_debias", "DCWP")}
    header = ["method", *FACTS, "before pruning", "after pruning", "at the end", "*oracle*"]
    return Page(
        [
            "CMNIST 1 %, SGD, unbiased accuracy by training step. ERM and MRM_debias (DCWP's masks, with "
            "weights reset to their initial values) train for 3,000 steps. DCWP's mask is applied after "
            "2,000 steps, followed by 1,000 steps of fine-tuning. The curves show accuracy on the test "
            "split, for evaluation only. The published figure has no numbers; in it ERM is lowest, "
            "MRM_debias is higher, and DCWP is highest.",
            legend(ORACLE),
            figure("reset.svg", "Test accuracy (oracle) by training step"),
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
        "Test accuracy by step (oracle)",
        "training step",
        "unbiased accuracy",
        curves,
        mark=("mask applied", before),
    )


def _course(name: str, result: Result, first: int) -> PlotCurve:
    """Return the mean accuracy over seeds at every scored step; `first` is added to the steps."""
    by_step: dict[float, list[float]] = {}
    for run in result.runs:
        for step, found in run["extras"]["iterates"].items():
            by_step.setdefault(float(first + int(step)), []).append(found["unbiased"])
    return through(name, by_step)


RESET = Item("Resetting the weights", _reset_cells, _reset, extras=("iterates",))
