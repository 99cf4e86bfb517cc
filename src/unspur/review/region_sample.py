"""The images that a region is hidden in: a sample of the rows of the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from ..errors import DataError, UnspurError
from ..probe.measuring import ProbedImages
from ..runs.classifier import Classifier
from ..stages.corrections import EXCLUDE
from .image_sources import ImageSource
from .replay import Replay

MOST = 300  # largest number of images


class LabelledRow(NamedTuple):
    """A row of the table: its number, its name, and the index of its class."""

    row: int
    name: str
    label: int


class RowSample(NamedTuple):
    """Rows to read, and how many rows they were taken from."""

    rows: list[LabelledRow]
    total: int


def sample_rows(replay: Replay, classes: Sequence[str], most: int = MOST) -> RowSample:
    """Return at most `most` rows, evenly spread over all rows sorted by class.

    Corrected labels count. Excluded rows, and rows of a class that the model does not have, are left out.
    """
    index, table = {name: i for i, name in enumerate(classes)}, replay.table
    labelled = [
        LabelledRow(row, table.names[row], index[label])
        for row, state in enumerate(replay.states)
        if (label := state.new_label or table.labels[row]) in index and state.flag != EXCLUDE
    ]
    labelled.sort(key=lambda each: each.label)
    total = len(labelled)
    count = min(total, most)
    return RowSample([labelled[i * total // count] for i in range(count)], total)


def read_sample(
    sample: RowSample,
    images: ImageSource,
    model: Classifier,
    follow: Callable[[int], None] = lambda count: None,
) -> ProbedImages:
    """Read the images of a sample; images that cannot be read are left out. `follow` is called after each."""
    kept, pixels, problem = [], [], "suspects.csv has no image of a class of the model."
    for each in sample.rows:
        try:
            pixels.append(images.pixels(each.row, model))
            kept.append(each)
        except UnspurError as error:
            problem = str(error)
        follow(1)
    if not kept:
        raise DataError(f"No image can be read. {problem}")
    labels = torch.tensor([each.label for each in kept])
    names = tuple(each.name for each in kept)
    return ProbedImages(torch.stack(pixels), labels, model.classes, names, "The sample")
