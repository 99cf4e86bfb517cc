"""Classify image files with the model of a run."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ..data.custom import class_folders
from ..data.custom.listing import printable
from ..errors import DataError
from .classifier import Classifier

AT_ONCE = 256  # images in one batch


class Prediction(NamedTuple):
    """An image file, its predicted class, and the probability of that class."""

    path: Path
    label: str
    probability: float


def image_files(paths: Iterable[Path | str]) -> list[Path]:
    """Return the given image files, and all image files in the given folders."""
    given, found = [Path(path) for path in paths], list[Path]()
    for path in given:
        found += class_folders.images(path) if path.is_dir() else [path]
    if not found:
        where = (
            f" in {', '.join(map(printable, given))}" if given else ": the list of files is empty"
        )
        raise DataError(f"there are no image files{where}.")
    return found


def predictions(model: Classifier, files: list[Path]) -> Iterator[Prediction]:
    """Yield the prediction for every file; leave out unreadable files, with a warning."""
    for start in range(0, len(files), AT_ONCE):
        yield from _predicted(model, files[start : start + AT_ONCE])


def _predicted(model: Classifier, files: list[Path]) -> Iterator[Prediction]:
    try:
        found = model.predict(files)
    except DataError as error:
        if len(files) == 1:
            warnings.warn(str(error), stacklevel=2)
            return
        for file in files:
            yield from _predicted(model, [file])
    else:
        for file, (label, probability) in zip(files, found, strict=True):
            yield Prediction(file, label, probability)
