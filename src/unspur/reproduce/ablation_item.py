"""The ablation of DCWP, and the comparison of three interpretations of the paper."""

from __future__ import annotations

from ..recipes import published
from .item import Cells, Item, Page, Result, Results, cell, mean_sd_text
from .main_item import RELEASED, SCORE
from .pages import (
    COUNTED,
    FACTS,
    ORACLE,
    PUBLISHED,
    facts,
    gain,
    legend,
    metric_name,
    number,
    selection,
    start,
    table,
)

# -- the ablation -------------------------------------------------------------------------------------

PARTS = {  # pruning, alignment, oversampling
    "1": ("", "", ""),
    "2": ("✓", "", ""),
    "3": ("", "", "✓"),
    "4": ("", "✓", "✓"),
    "5": ("✓", "", "✓"),
    "6": ("✓", "✓", "✓"),
}
# Rows that differ by pruning. Row 2 also trains for 1,000 more steps than row 1.
PAIRS = (("1", "2"), ("3", "5"), ("4", "6"))
OPTIMISERS = {"SGD, 2,000 + 1,000 steps": "", "Adam, 10,000 + 1,000 steps": "-adam"}


def _ablation_cells() -> Cells:
    return {
        (optimiser, index): cell(f"cmnist/ablation-{index}{suffix}")
        for optimiser, suffix in OPTIMISERS.items()
        for index in PARTS
    }


def _ablation(results: Results) -> Page:
    header = ["row", "pruning", "alignment", "oversampling", "selection", "start"]
    header += [*OPTIMISERS, "published (SGD)"]
    return Page(
        [
            f"CMNIST 1 %. {metric_name('unbiased')}. Row 1 is the pretrained network. Row 2 prunes it with "
            "masks learned on batches with more suspects (*oversampling*), then trains it for 1,000 more "
            "steps on ordinary batches. A mark (✓) means that the row has the part.",
            legend(PUBLISHED, COUNTED),
            table(header, [_parts(results, index) for index in PARTS]),
            "The gain from pruning in percentage points, computed seed by seed. From row 1 to row 2 it "
            "includes the effect of the 1,000 additional steps.",
            table(
                ["rows", *OPTIMISERS, "published (SGD)"], [_added(results, *pair) for pair in PAIRS]
            ),
        ]
    )


def _parts(results: Results, index: str) -> list[str]:
    both = [results[optimiser, index] for optimiser in OPTIMISERS]
    scores = [each.counted(*SCORE) for each in both]
    return [index, *PARTS[index], selection(*both), start(*both), *scores, number(_row(index))]


def _added(results: Results, before: str, after: str) -> list[str]:
    gains = [gain(results[o, after], results[o, before], *SCORE) for o in OPTIMISERS]
    paper = number(_row(after) - _row(before))
    return [f"{before} → {after}", *map(mean_sd_text, gains), paper]


def _row(index: str) -> float:
    return published.ABLATION[f"cmnist/ablation-{index}"]


ABLATION = Item("The ablation", _ablation_cells, _ablation)

# -- interpretations of the paper ---------------------------------------------------------------------

# The paper's text gives these values in the reverse order of the released scripts.
TEXT_UP = {"0.5pct": "finetune.up=10", "1pct": "finetune.up=30"}
DATA = {("cmnist", "0.5pct"): "CMNIST 0.5 %", ("cifar10c", "1pct"): "CIFAR10-C 1 %"}
KEPT = "finetune.iterates=[200, 400, 600, 800, 1000]"


TEXT = "text's penalty and upweighting"


def _readings_of(ratio: str) -> dict[str, tuple[str, ...]]:
    """Return changes of the default interpretation: the other two, then one difference at a time."""
    noise, columns, _, tuned = RELEASED
    absolute = "prune.penalty=absolute"
    return {
        "default": (),
        "released code": RELEASED,
        TEXT: (absolute, TEXT_UP[ratio]),
        "noise on the probability (code)": (noise,),
        "positives by column (code)": (columns, tuned),
        "absolute logits (text)": (absolute,),
        "upweighting in the text's order": (TEXT_UP[ratio],),
    }


def _readings_cells() -> Cells:
    every = {
        (data, reading): cell(f"{data}/{ratio}-dcwp", *changes, KEPT)
        for data, ratio in DATA
        for reading, changes in _readings_of(ratio).items()
    }
    first = {"default", "released code", TEXT}
    return dict(sorted(every.items(), key=lambda each: each[0][1] not in first))


def _readings(results: Results) -> Page:
    header = [
        "interpretation",
        *FACTS,
        "accuracy",
        "*oracle*",
        "before fine-tuning",
        "weights kept",
    ]
    parts = [
        "The paper's text and the released code differ in some details of DCWP. This page compares our "
        "default interpretation with both, and shows the effect of each difference. "
        f"{metric_name('unbiased')}.",
        legend(
            ORACLE,
            "The last four rows of each table change one detail of the default. `docs/decisions/reading.md` "
            "explains the details, and `unspur reproduce gaps` has DCWP to the letter of the text.",
        ),
    ]
    for (data, ratio), title in DATA.items():
        known = published.PUBLISHED[f"{data}/{ratio}"]["dcwp"]
        rows = [_reading(name, results[data, name]) for name in _readings_of(ratio)]
        parts += [f"{title} (published: {number(known)}):", table(header, rows)]
    return Page(parts)


def _reading(name: str, result: Result) -> list[str]:
    return [
        name,
        *facts(result),
        result.text(*SCORE),
        mean_sd_text(result.best("unbiased")),
        result.text("pruned", "unbiased"),
        result.text("density", "overall"),
    ]


READINGS = Item(
    "Three interpretations of DCWP, and which difference matters",
    _readings_cells,
    _readings,
    extras=("iterates",),
)
