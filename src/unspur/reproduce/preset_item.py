"""Our preset on every data set, the contribution of its parts, and its mixing in other methods."""

from __future__ import annotations

from .item import DASH, Cells, Item, Page, Result, Results, cell
from .pages import FACTS, METHOD_SOURCES, facts, legend, table

METRICS = ("unbiased", "aligned", "conflicting", "worst_group")
HEADER = ["unbiased", "aligned", "conflicting", "worst group", "multiply–adds kept, %"]
METHODS = {"erm": "ERM", "dcwp": "DCWP", "unspur-1": "unspur, first preset", "unspur": "unspur"}
RATIOS = {"0.5pct": "0.5 %", "1pct": "1 %", "2pct": "2 %", "5pct": "5 %"}
SETS = {
    **{f"cmnist/{ratio}": f"CMNIST {share}" for ratio, share in RATIOS.items()},
    **{f"cifar10c/{ratio}": f"CIFAR10-C {share}" for ratio, share in RATIOS.items()},
    "bffhq/1pct": "faces 1 %",
    "celeba/keep88": "CelebA, a part",
}
CLEAN = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
SINGLE = ("prune.unit=weight", "prune.cut=threshold", "prune.weigh=weights")
# The share of suspects in a batch: what `unspur debias --prefer` changes.
PREFERENCES: dict[str, tuple[str, ...]] = {
    "`--prefer aligned`": ("prune.share=0.25", "finetune.share=0.25"),
    "the preset": (),
    "`--prefer conflicting`": ("prune.share=0.75", "finetune.share=0.75"),
}
SMALLER: dict[str, tuple[str, tuple[str, ...]]] = {
    "single weights": ("cifar10c/1pct", SINGLE),
    "single weights, few of them": ("cifar10c/1pct", (*SINGLE, "prune.sparsity=1e-6")),
    "whole channels, 30 % of the multiply–adds": ("cifar10c/5pct", ("prune.keep=0.3",)),
}


def _scores(result: Result) -> list[str]:
    kept = result.text("density", "macs") if result.n else DASH
    return [*(result.text("debiased", metric) for metric in METRICS), kept]


# -- every set ----------------------------------------------------------------------------------------


def _preset_cells() -> Cells:
    found: Cells = {(data, kind): cell(f"{data}-{kind}") for data in SETS for kind in METHODS}
    found |= {(data, "unspur"): cell(f"{data}/unspur") for data in CLEAN}
    for name, changes in PREFERENCES.items():
        found["prefer", name] = cell("cifar10c/1pct-unspur", *changes)
    for name, (data, changes) in SMALLER.items():
        found["smaller", name] = cell(f"{data}-unspur", *changes)
    return found


def _preset(results: Results) -> Page:
    rows = [
        [title, name, *facts(results[data, kind]), *_scores(results[data, kind])]
        for data, title in SETS.items()
        for kind, name in METHODS.items()
    ]
    return Page(
        [
            "The same settings on every data set. They were chosen on development sets, which are parts of "
            "the training images. Networks start from random weights.",
            legend(METHOD_SOURCES),
            table(["data", "method", *FACTS, *HEADER], rows),
            "Data without a shortcut, debiased without asking the audit first (`--anyway`):",
            table(["data", *FACTS, "ordinary model", "result"], _clean_rows(results)),
            "CIFAR10-C 1 %, with other shares of suspects in a batch (a quarter, a half, three quarters):",
            table(["", *FACTS, *HEADER], _preference_rows(results)),
            "Smaller networks than the preset's:",
            table(["data", "masks", *FACTS, *HEADER, "weights kept, %"], _smaller_rows(results)),
        ]
    )


def _preference_rows(results: Results) -> list[list[str]]:
    return [
        [name, *facts(results["prefer", name]), *_scores(results["prefer", name])]
        for name in PREFERENCES
    ]


def _smaller_rows(results: Results) -> list[list[str]]:
    rows = []
    for name, (data, _) in SMALLER.items():
        result = results["smaller", name]
        kept = result.text("density", "overall") if result.n else DASH
        rows.append([SETS[data], name, *facts(result), *_scores(result), kept])
    return rows


def _clean_rows(results: Results) -> list[list[str]]:
    found = [(title, results[data, "unspur"]) for data, title in CLEAN.items()]
    return [
        [title, *facts(each), each.text("ordinary", "average"), each.text("debiased", "average")]
        for title, each in found
    ]


PRESET = Item("Our preset on every data set", _preset_cells, _preset)

# -- its parts, and its mixing in other methods ---------------------------------------------------------

PARTS: dict[str, tuple[str, ...]] = {
    "the preset": (),
    "no mixing within classes": ("data.mix=0.0",),
    "no mixing of styles": ("data.style=0.0",),
    "no mixing of spectra": ("data.spectrum=0.0",),
    "none of the three": ("data.mix=0.0", "data.style=0.0", "data.spectrum=0.0"),
    "no pruning": ("prune.keep=1.0",),
    "no alignment": ("prune.align=0.0", "finetune.align=0.0"),
    "last step": ("select.rule=last",),
    "single weights": SINGLE,
}
ABLATED = {"cifar10c/1pct": "CIFAR10-C 1 %", "cmnist/0.5pct": "CMNIST 0.5 %", "bffhq/1pct": "faces"}
MIXED = ("data.spectrum=0.5", "data.style=1.0", "data.mix=1.0")
OTHERS = {"erm": "ERM", "jtt": "JTT", "lff": "LfF", "disent": "DisEnt", "lc": "LC"}
MIXED_ON = {"cifar10c/1pct": "CIFAR10-C 1 %", "cmnist/0.5pct": "CMNIST 0.5 %"}


def _augmentation_cells() -> Cells:
    found: Cells = {
        (data, part): cell(f"{data}-unspur", *changes)
        for data in ABLATED
        for part, changes in PARTS.items()
    }
    for data in MIXED_ON:
        for kind in OTHERS:
            found[data, kind] = cell(f"{data}-{kind}", seeds=2)
            found[data, f"{kind} mixed"] = cell(f"{data}-{kind}", *MIXED, seeds=2)
    return found


def _augmentation(results: Results) -> Page:
    parts = [
        "The contribution of each part of the preset: one part is left out, everything else stays the same.",
        legend(
            METHOD_SOURCES,
            "*none of the three*: no mixing at all. *no alignment*: without the alignment loss. *last step*: "
            "no selection of the step. *single weights*: masks on weights, not channels.",
        ),
        table(["data", "variant", *FACTS, *HEADER], _part_rows(results)),
        "Other methods, unchanged and with the mixing of the preset. Their rows with *mixed* show what "
        "the augmentation does without pruning.",
        table(["data", "method", *FACTS, *HEADER], _other_rows(results)),
    ]
    return Page(parts)


def _part_rows(results: Results) -> list[list[str]]:
    return [
        [title, part, *facts(results[data, part]), *_scores(results[data, part])]
        for data, title in ABLATED.items()
        for part in PARTS
    ]


def _other_rows(results: Results) -> list[list[str]]:
    rows = []
    for data, title in MIXED_ON.items():
        for kind, name in OTHERS.items():
            for key, how in ((kind, name), (f"{kind} mixed", f"{name}, mixed")):
                rows.append([title, how, *facts(results[data, key]), *_scores(results[data, key])])
    return rows


AUGMENTATION = Item(
    "The parts of the preset, and its mixing in other methods", _augmentation_cells, _augmentation
)
