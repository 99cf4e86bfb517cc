"""Faces: age with gender for a shortcut (in the layout of BFFHQ), hair colour with gender (CelebA)."""

from __future__ import annotations

from math import sqrt

from .. import published
from .item import DASH, Cells, Item, Page, Result, Results, Run, cell
from .pages import FACTS, READING, cut, facts, number, table

METHODS = {
    "erm": "ERM",
    "dcwp": "DCWP",
    "dcwp-unpruned": "DCWP without pruning",
    "unspur": "unspur",
    "lff": "LfF",
    "disent": "DisEnt",
    "jtt": "JTT",
}
INTERVAL = (
    "In square brackets: the 95 % interval (Wilson) of such a share among the test images it is of (the "
    "fewest, where seeds differ in their worst group). Where intervals overlap, no ranking is claimed."
)


def wilson(share: float, count: int, *, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share that was seen among so many."""
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2) / (1 + z * z / count)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def within(result: Result, metric: str, count: int | None) -> str:
    """Mean ± standard deviation, and the interval of such a share among so many test images."""
    mean = result.mean("debiased", metric)
    if mean is None or not count:
        return result.text("debiased", metric)
    low, high = wilson(mean, count)
    return f"{result.text('debiased', metric)} [{100 * low:.0f}, {100 * high:.0f}]"


def conflicting_images(result: Result) -> int | None:
    """How many test images contradict the bias."""
    return next((run["kept"]["groups"]["conflicting"] for run in result.runs), None)


def worst_groups(result: Result) -> dict[str, int]:
    """The group each run does worst in, by name: how many test images it has."""
    return dict(_worst(run["kept"]["groups"]) for run in result.runs)


def _worst(kept: Run) -> tuple[str, int]:
    found = [
        (accuracy, c, b)
        for c, row in enumerate(kept["accuracy"]["debiased"])
        for b, accuracy in enumerate(row)
        if accuracy is not None
    ]
    _, c, b = min(found)
    bias = kept["biases"][b] if b < len(kept["biases"]) else str(b)
    return f"{kept['classes'][c]}, {bias}", kept["counts"][c][b]


# -- faces --------------------------------------------------------------------------------------------


def _faces_cells() -> Cells:
    return {(kind,): cell(f"bffhq/1pct-{kind}") for kind in METHODS}


def _faces(results: Results) -> Page:
    header = ["method", *FACTS, "conflicting", "published", "aligned", "unbiased", "cut"]
    known = published.PUBLISHED["bffhq/0.5pct"]
    rows = []
    for kind, name in METHODS.items():
        own = results[kind,]
        conflicting = within(own, "conflicting", conflicting_images(own))
        paper = number(known.get(published.READINGS.get(kind, kind)))
        rest = [own.text("debiased", "aligned"), own.text("debiased", "unbiased"), cut(own)]
        rows.append([name, *facts(own), conflicting, paper, *rest])
    return Page(
        [
            "A stand-in for BFFHQ: other faces at 96 px, 1 % of them conflicting, at most 3,000 steps a "
            "stage. The published numbers are of the original set with 0.5 %, so only the order of the "
            f"methods can be compared. {READING} {INTERVAL}",
            table(header, rows),
        ]
    )


FACES = Item("Faces: age, and gender for a shortcut", _faces_cells, _faces, keep=("groups",))

# -- CelebA -------------------------------------------------------------------------------------------


def _celeba_cells() -> Cells:
    return {(kind,): cell(f"celeba/keep88-{kind}") for kind in METHODS}


def _celeba(results: Results) -> Page:
    header = ["method", *FACTS, "worst group", "published", "which (test images)"]
    header += ["average", "by training shares", "published", "cut"]
    rows = []
    for kind, name in METHODS.items():
        own = results[kind,]
        paper = published.READINGS.get(kind, kind)
        worst = worst_groups(own)
        fewest = min(worst.values(), default=None)
        which = "; ".join(f"{group} ({count})" for group, count in worst.items())
        row = [name, *facts(own), within(own, "worst_group", fewest)]
        row += [number(published.PUBLISHED["celeba"].get(paper)), which or DASH]
        row += [own.text("debiased", "average"), own.text("debiased", "average_train_weighted")]
        rows.append([*row, number(published.CELEBA_AVERAGE.get(paper)), cut(own)])
    return Page(
        [
            "Blond or not, gender for a shortcut: a part of CelebA at 96 px, 88 of the "
            "women who are not blond left for training, at most 3,000 steps a stage. The published numbers "
            "are of the whole set at 224 px; how their average counts the groups is not said, so ours is "
            f"given over all test images and by the groups' shares of the training set. {READING} {INTERVAL}",
            table(header, rows),
        ]
    )


CELEBA = Item(
    "CelebA: blond hair, and gender for a shortcut", _celeba_cells, _celeba, keep=("groups",)
)
