"""Faces with gender as the shortcut: age (in the layout of BFFHQ) and hair colour (CelebA)."""

from __future__ import annotations

from ..recipes import published
from .item import DASH, Cells, Item, Page, Result, Results, Run, cell
from .pages import FACTS, METHOD_SOURCES, PUBLISHED, cut, facts, legend, number, table

METHODS = {
    "erm": "ERM",
    "dcwp": "DCWP",
    "dcwp-unpruned": "DCWP without pruning",
    "unspur-1": "unspur, first preset",
    "lff": "LfF",
    "disent": "DisEnt",
    "jtt": "JTT",
}
BFFHQ = METHODS | {"end": "EnD", "rebias": "ReBias", "mrm": "MRM"}
# Starts from ImageNet weights that come with a package: see examples/efficientnet_lite0.py.
LITE0 = (
    "model.name=examples/efficientnet_lite0.py:lite0",
    "model.init=efficientnet-lite0-57934424.pth",
    *("data.mean=[0.498]", "data.std=[0.502]", "mine.rate=3e-4", "pretrain.rate=3e-4"),
)
LARGER = {"erm": "ERM, EfficientNet-Lite0", "dcwp": "DCWP, EfficientNet-Lite0"}
LARGER |= {"unspur-1": "unspur, first preset, EfficientNet-Lite0"}
INTERVAL = (
    "In square brackets: the 95 % bootstrap interval over the test images of one run; its ends are averaged "
    "over the runs. Where intervals overlap, we claim no order of the methods."
)


def within(result: Result, metric: str) -> str:
    """Format mean ± standard deviation of an accuracy, and the average interval of a run."""
    bounds = [run["extras"]["groups"]["intervals"][metric] for run in result.runs]
    if not bounds:
        return DASH
    low, high = (100 * sum(each) / len(bounds) for each in zip(*bounds, strict=True))
    return f"{result.text('debiased', metric)} [{low:.0f}, {high:.0f}]"


def worst_groups(result: Result) -> dict[str, int]:
    """Return the worst group of each run and its number of test images."""
    return dict(_worst(run["extras"]["groups"]) for run in result.runs)


def _worst(groups: Run) -> tuple[str, int]:
    found = [
        (accuracy, c, b)
        for c, row in enumerate(groups["accuracy"]["debiased"])
        for b, accuracy in enumerate(row)
        if accuracy is not None
    ]
    _, c, b = min(found)
    bias = groups["biases"][b] if b < len(groups["biases"]) else str(b)
    return f"{groups['classes'][c]}, {bias}", groups["counts"][c][b]


# -- faces --------------------------------------------------------------------------------------------


def _faces_cells() -> Cells:
    small: Cells = {(kind, ""): cell(f"bffhq/1pct-{kind}") for kind in BFFHQ}
    return small | {(kind, "lite0"): cell(f"bffhq/1pct-{kind}", *LITE0) for kind in LARGER}


def _faces(results: Results) -> Page:
    header = ["method", *FACTS, "conflicting", "published"]
    header += ["worst group", "aligned", "unbiased", "weights cut", "found by the miner"]
    names = {(kind, ""): name for kind, name in BFFHQ.items()}
    names |= {(kind, "lite0"): name for kind, name in LARGER.items()}
    return Page(
        [
            "A stand-in for BFFHQ: other face images at 96 px, 1 % of them conflicting, with at most "
            "3,000 steps per stage. The network is ResNet-18 unless another one is named. The published "
            "numbers are for the original data with 0.5 % conflicting images, so only the order of the "
            "methods can be compared. [Our preset](preset.md) and "
            "[MobileNetV2 from ImageNet weights](imagenet.md) have pages of their own.",
            legend(
                PUBLISHED,
                METHOD_SOURCES,
                INTERVAL,
                "*found by the miner*: the share of the conflicting images that are suspects (recall).",
            ),
            table(header, [_face_row(name, *key, results[key]) for key, name in names.items()]),
        ]
    )


def _face_row(name: str, kind: str, network: str, result: Result) -> list[str]:
    known = published.PUBLISHED["bffhq/0.5pct"].get(published.READINGS.get(kind, kind))
    row = [name, *facts(result), within(result, "conflicting")]
    row += [DASH if network else number(known), within(result, "worst_group")]
    row += [result.text("debiased", metric) for metric in ("aligned", "unbiased")]
    return [*row, cut(result), result.text("mining", "recall")]


FACES = Item("Faces: age, with gender as the shortcut", _faces_cells, _faces, extras=("groups",))

# -- CelebA -------------------------------------------------------------------------------------------


def _celeba_cells() -> Cells:
    return {(kind,): cell(f"celeba/keep88-{kind}") for kind in METHODS}


def _celeba(results: Results) -> Page:
    header = ["method", *FACTS, "worst group", "published", "worst groups (test images)"]
    header += ["conflicting", "unbiased", "average", "weighted average", "published", "weights cut"]
    return Page(
        [
            "The classes are blond hair or not, and gender is the shortcut. The data are a part of CelebA at "
            "96 px. The training set has only 88 images of women who are not blond. Each stage has at most "
            "3,000 steps. The published numbers are for the whole data set at 224 px. The paper does not say "
            "how its average weights the groups, so we give two: the average over all test images, and the "
            "average weighted by the shares of the groups in the training set.",
            legend(PUBLISHED, METHOD_SOURCES, INTERVAL),
            table(
                header, [_celeba_row(name, kind, results[kind,]) for kind, name in METHODS.items()]
            ),
        ]
    )


def _celeba_row(name: str, kind: str, result: Result) -> list[str]:
    paper = published.READINGS.get(kind, kind)
    which = "; ".join(f"{group} ({count})" for group, count in worst_groups(result).items())
    row = [name, *facts(result), within(result, "worst_group")]
    row += [number(published.PUBLISHED["celeba"].get(paper)), which or DASH]
    row += [within(result, "conflicting")]
    row += [result.text("debiased", m) for m in ("unbiased", "average", "average_train_weighted")]
    return [*row, number(published.CELEBA_AVERAGE.get(paper)), cut(result)]


CELEBA = Item(
    "CelebA: blond hair, with gender as the shortcut", _celeba_cells, _celeba, extras=("groups",)
)
