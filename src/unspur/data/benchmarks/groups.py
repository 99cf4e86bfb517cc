"""The benchmark sets: which are available, their counts by group, and a check against published counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch

from ...errors import DataError
from ..splits import Splits
from . import bffhq, celeba, cifar10, cifar10c, cmnist, mnist

RATIOS: dict[str, tuple[str, ...]] = {
    "cmnist": tuple(cmnist.CONFLICTING),
    "cifar10c": tuple(cifar10c.COUNTS),
    "cmnist-dev": tuple(cmnist.CONFLICTING),
    "cifar10c-dev": tuple(cifar10c.COUNTS),
    "cifar10": ("all",),
    "mnist": ("all",),
    "bffhq": ("0.5pct", "1pct"),
    "celeba": ("keep2000", "keep88", "all", "csv"),
    "demo": ("1pct", "2pct", "5pct"),
}

# Published numbers of aligned and conflicting training images.
PUBLISHED: dict[str, tuple[int, int]] = {
    **{
        f"cmnist/{ratio}": (cmnist.TRAIN - count, count)
        for ratio, count in cmnist.CONFLICTING.items()
    },
    **{f"cifar10c/{ratio}": counts for ratio, counts in cifar10c.COUNTS.items()},
    "bffhq/0.5pct": (19_104, 96),
    "celeba/keep2000": (66_874 + 22_880, 2_000 + 1_387),
}


def state(name: str, root: Path | None) -> str:
    """Return "ready", or which file is missing and where to put it; no image is opened."""
    if name == "demo":
        return "ready (embedded)"
    try:
        _check_files(name, mnist.find_root(root))
    except DataError as error:
        return str(error)
    return "ready"


def _check_files(name: str, root: Path) -> None:
    """Raise DataError if the files of a data set are missing."""
    if name in ("cmnist", "cifar10c") and any((root / name).glob("*pct")):
        return
    if name in ("cmnist", "mnist", "cmnist-dev"):
        for file in mnist.FILES:
            mnist.locate(root, file)
    elif name in ("cifar10c", "cifar10", "cifar10c-dev"):
        cifar10.find(root)
    elif name == "bffhq":
        bffhq.find(root, RATIOS["bffhq"][0])
    else:
        celeba.find(root)


def tables(splits: Splits) -> dict[str, list[list[str]]]:
    """Return a table of counts for each split: a header with the bias labels, then a row for each class."""
    return {part: _table(splits, part) for part in splits.parts()}


def _table(splits: Splits, part: str) -> list[list[str]]:
    targets = splits.parts()[part].targets
    classes = len(splits.classes)
    if part not in splits.bias:
        counts = torch.bincount(targets, minlength=classes)[:, None]
        header = ["images"]
    else:
        names = splits.bias_classes
        biases = max(len(names), 1 + int(splits.bias[part].max()))
        groups = targets * biases + splits.bias[part]
        counts = torch.bincount(groups, minlength=classes * biases).view(classes, biases)
        header = list(names) or [str(number) for number in range(biases)]
    rows = [
        [name, *map(str, row)] for name, row in zip(splits.classes, counts.tolist(), strict=True)
    ]
    return [header, *rows]


def verify(splits: Splits) -> Iterator[str]:
    """Yield sentences that compare the counts of a data set with the published ones."""
    conflicting = splits.conflicting("train")
    if conflicting is None:
        yield f"{splits.name}: {len(splits.train)} training images; no bias labels."
        return
    count = int(conflicting.sum())
    counts = len(splits.train) - count, count
    share = f"{100 * count / sum(counts):.2f} %"
    text = f"{counts[0]} aligned and {counts[1]} conflicting training images ({share})"
    expected = PUBLISHED.get(splits.name)
    if expected is None:
        yield f"{splits.name}: {text}. There is no published count to compare with."
    elif expected == counts:
        yield f"{splits.name}: {text}, as published."
    else:
        yield (
            f"{splits.name}: {text}; the published numbers are {expected[0]} and {expected[1]}. This is "
            "another version of the set, so results are not comparable with published ones."
        )
