"""Columns that may explain suspects: a user's table, groups of the data, files, folders, brightness, colour.

A column has one value for each training image, reduced to a few kinds: numbers are cut at their deciles, only
the most frequent texts are kept, and a missing value is a separate kind.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..data.custom.sample_table import SampleTable
from ..data.decoding.file_facts import Facts, read_facts
from ..data.decoding.files import in_threads
from ..data.splits import Part, Splits
from ..stages.thumbnails import colours

MOST_KINDS = 10  # of a column, besides "other" and "none"
MOST_CHARACTERS = 60  # of a value
MOST_DIGITS = 15  # of a number
CHUNK = 512  # images whose pixels are in memory at a time
MISSING = ("", "na", "n/a", "nan", "null", "none")  # cells without a number in a column of numbers
OTHER, NONE = "(any other)", "(none)"

Origin = Literal["table", "groups", "file", "folder", "pixels"]
Cell = str | float | None


@dataclass(frozen=True, eq=False)
class Column:
    """A property of each image: the number of its kind, and the names of the kinds."""

    name: str
    origin: Origin
    kinds: NDArray[np.int64]
    kind_names: tuple[str, ...]


def column(name: str, origin: Origin, cells: Sequence[Cell]) -> Column | None:
    """Return cells as a column; None if all images are of one kind."""
    numbers = [_number(cell) for cell in cells]
    present = [cell for cell in cells if not _is_missing(cell)]
    distinct = len(set(numbers))
    numeric = bool(present) and sum(n is not None for n in numbers) == len(present)
    texts = _cut(numbers) if numeric and distinct > MOST_KINDS else [_text(cell) for cell in cells]
    frequent = [text for text, _ in Counter(t for t in texts if t != NONE).most_common(MOST_KINDS)]
    names = [*frequent, OTHER, NONE]
    place = {text: number for number, text in enumerate(frequent)}
    other, none = len(frequent), len(frequent) + 1
    kinds = np.array([none if text == NONE else place.get(text, other) for text in texts], np.int64)
    return Column(name, origin, kinds, tuple(names)) if len(set(kinds.tolist())) > 1 else None


def _is_missing(cell: Cell) -> bool:
    """Return whether a cell is empty, or says so in a column of numbers."""
    return cell is None or str(cell).strip().lower() in MISSING


def _number(cell: Cell) -> float | None:
    if cell is None or cell == "":
        return None
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _text(cell: Cell) -> str:
    if cell is None or cell == "":
        return NONE
    if isinstance(cell, float):  # whole numbers, such as dates, in full
        return f"{cell:.{MOST_DIGITS if cell.is_integer() else 6}g}"
    return " ".join(cell[: 4 * MOST_CHARACTERS].split())[:MOST_CHARACTERS] or NONE


def _cut(numbers: Sequence[float | None]) -> list[str]:
    """Return for each number the decile that it lies in, named by its bounds."""
    known = np.array([number for number in numbers if number is not None])
    edges = np.unique(np.quantile(known, np.linspace(0, 1, MOST_KINDS + 1)))
    names = [f"{low} to {high}" for low, high in pairwise(_distinct_texts(edges.tolist()))]
    if not names:
        return [NONE if number is None else f"{number:.4g}" for number in numbers]
    inner = edges[1:-1]
    return [
        NONE if number is None else names[int(np.searchsorted(inner, number, side="right"))]
        for number in numbers
    ]


def _distinct_texts(numbers: Sequence[float]) -> list[str]:
    """Return different numbers as different texts, with four digits or as many as that takes."""
    for digits in range(4, MOST_DIGITS + 1):
        texts = [f"{number:.{digits}g}" for number in numbers]
        if len(set(texts)) == len(numbers):
            return texts
    return [repr(number) for number in numbers]


# -- where columns come from --------------------------------------------------------------------------


def find_columns(
    splits: Splits, paths: Mapping[str, Path], table: SampleTable | None = None
) -> list[Column]:
    """Return every known column of the training images that has more than one kind.

    `paths` maps names of images to files; images that are not in a file are missing from it.
    """
    cells: Iterator[tuple[str, Origin, Sequence[Cell]]] = _all_cells(splits, paths, table)
    found = [column(name, origin, values) for name, origin, values in cells]
    return [each for each in found if each is not None]


def _all_cells(
    splits: Splits, paths: Mapping[str, Path], table: SampleTable | None
) -> Iterator[tuple[str, Origin, Sequence[Cell]]]:
    part = splits.train
    if table is not None:
        yield from ((name, "table", values) for name, values in table.columns.items())
    if "train" in splits.bias and not (table and "group" in table.columns):
        names = splits.bias_classes
        groups = splits.bias["train"].tolist()
        yield "group", "groups", [names[g] if g < len(names) else str(g) for g in groups]
    if part.names is not None:
        yield "folder", "folder", [str(PurePosixPath(name).parent) for name in part.names]
        yield from ((name, "file", values) for name, values in _file_cells(part.names, paths))
    yield from ((name, "pixels", values) for name, values in pixel_values(part).items())


def _file_cells(
    names: Sequence[str], paths: Mapping[str, Path]
) -> Iterator[tuple[str, list[Cell]]]:
    """Yield every fact of the image files, with None where a file does not state it."""
    known = [name for name in names if name in paths]
    facts: dict[str, Facts] = dict(
        zip(known, in_threads(read_facts, [paths[name] for name in known]), strict=True)
    )
    for fact in dict.fromkeys(fact for each in facts.values() for fact in each):
        yield fact, [facts.get(name, {}).get(fact) for name in names]


def pixel_values(part: Part) -> dict[str, list[Cell]]:
    """Return brightness, contrast, colour and sharpness of every image, between 0 and 1."""
    chunks = torch.split(torch.arange(len(part)), CHUNK)
    measurements = torch.cat([_measure(colours(part.take(index).cpu()) / 255) for index in chunks])
    names = ("brightness", "contrast", "red", "green", "blue", "saturation", "sharpness")
    return {name: list(values) for name, values in zip(names, measurements.T.tolist(), strict=True)}


def _measure(images: Tensor) -> Tensor:
    """Return one row of measurements per image (N, 3, H, W); colours are channels minus the brightness."""
    grey = images.mean(1)
    channels = images.mean((2, 3)) - grey.mean((1, 2))[:, None]
    saturation = (images.amax(1) - images.amin(1)).mean((1, 2))
    across = (grey[:, :, 1:] - grey[:, :, :-1]).abs().mean((1, 2))
    return torch.stack(
        [grey.mean((1, 2)), grey.flatten(1).std(1), *channels.T, saturation, across], 1
    )
