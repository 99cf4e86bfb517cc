"""A dataset of the Hugging Face hub, or one that `datasets` saved to disk: `hf:NAME` or `hf:FOLDER`."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from ...boundary import explain_faults
from ...errors import DataError
from ..decoding.pixels import colours
from ..splits import Split, Splits
from .common_size import size_for, to_measure
from .dataset import pixels
from .listing import PARTS, check_counts, in_order, names_of_splits
from .sources import GroupSource

PREFIX = "hf:"


def load(
    name: str,
    *,
    limit: int = 96,
    size: tuple[int, int] | None = None,
    classes: tuple[str, ...] | None = None,
    group: str = "",
) -> Splits:
    """Load all splits of a dataset and resize the images to one size; columns are found by their type."""
    parts = open_splits(name)
    if "train" not in parts:
        raise DataError(f"{name} has no train split; it has {', '.join(parts) or 'none'}.")
    return convert(parts, name=name, limit=limit, size=size, classes=classes, group=group)


def open_splits(name: str) -> dict[str, Any]:
    """Return the splits of a dataset, named train, valid and test."""
    dataset = _open(name.removeprefix(PREFIX))
    named = {part: split for split, part in names_of_splits(dataset, name).items()}
    return {named.get(part, part): dataset[part] for part in dataset}


def group_column(name: str, groups: GroupSource) -> str:
    """Return the column of groups; raise if groups should be read from file names, which do not exist."""
    if groups.pattern:
        raise DataError(
            f"{name} has no file names to read {groups.pattern!r} from. Name a column of groups instead."
        )
    return groups.column


def convert(
    parts: Mapping[str, Any],
    *,
    name: str,
    limit: int = 96,
    size: tuple[int, int] | None = None,
    classes: tuple[str, ...] | None = None,
    group: str = "",
) -> Splits:
    """Convert splits of the package `datasets` to splits in memory; `group` is the column of groups."""
    parts = {part: rows for part, rows in parts.items() if part in PARTS.values()}
    image, label = _columns(parts["train"], name)
    parts = with_labels(parts, name)
    if "train" not in parts:
        raise DataError(f"{name}: the train split is empty.")
    words = _words(parts, label)
    if classes is None:
        classes = in_order({word for part in words.values() for word in part})
        counts = Counter(words["train"])
        check_counts(name, {word: counts[word] for word in classes})
    number = {word: i for i, word in enumerate(classes)}
    if unknown := {word for part in words.values() for word in part} - number.keys():
        raise DataError(f"{name}: the label {min(unknown)!r} is not one of {', '.join(classes)}.")
    size = size or _common_size(parts["train"], image, len(words["train"]), limit)
    splits = {}
    for part, rows in parts.items():
        images = torch.stack(list(_images(rows, image, size, f"{name} {part}")))
        splits[part] = Split(images, torch.tensor([number[word] for word in words[part]]))
    bias, biases = _biases(parts, group, name) if group else ({}, ())
    return Splits(
        train=splits["train"],
        valid=splits.get("valid"),
        test=splits.get("test"),
        classes=classes,
        bias=bias,
        bias_classes=biases,
        conflict_when="rare" if group else "different",
        name=name,
    )


def _biases(
    parts: Mapping[str, Any], group: str, name: str
) -> tuple[dict[str, torch.Tensor], tuple[str, ...]]:
    """Return the groups of every split as numbers, and the names of the groups."""
    if group not in parts["train"].features:
        columns = ", ".join(parts["train"].features)
        raise DataError(f"{name} has no column {group!r} to take groups from; it has {columns}.")
    words = _words(_with_values(parts, group, name), group)
    biases = in_order({word for part in words.values() for word in part})
    number = {word: i for i, word in enumerate(biases)}
    return {part: torch.tensor([number[w] for w in found]) for part, found in words.items()}, biases


def with_labels(parts: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the splits that have labels; warn of the others."""
    _, label = _columns(next(iter(parts.values())), name)
    labelled = _with_values(parts, label, name)
    if without := sorted(parts.keys() - labelled.keys()):
        warnings.warn(f"{name}: left out {' and '.join(without)}: no labels.", stacklevel=4)
    return labelled


def _with_values(parts: Mapping[str, Any], column: str, name: str) -> dict[str, Any]:
    """Return the splits with values in a column; raise if only some are missing, or those of training.

    Splits on the hub may have no labels, as those of a competition: all are None, or -1 if they have names,
    or there is no such column. Empty splits are left out, too.
    """
    found = {}
    for part, rows in parts.items():
        if column not in rows.features or not len(rows[column]):
            continue
        named = getattr(rows.features[column], "names", None) is not None
        missing = [value is None or (named and value == -1) for value in rows[column]]
        if not any(missing):
            found[part] = rows
        elif part == "train" or not all(missing):
            raise DataError(
                f"{name}: {sum(missing)} of {len(missing)} images of the {part} split have no {column}. "
                "Fill it in, or remove these images."
            )
    return found


def _words(parts: Mapping[str, Any], label: str) -> dict[str, list[str]]:
    """Return the label of every image as text; each split has its own names of the numbers."""
    found = {}
    for part, rows in parts.items():
        names = getattr(rows.features[label], "names", None)
        found[part] = [names[value] if names else str(value) for value in rows[label]]
    return found


def _open(name: str) -> Mapping[str, Any]:
    try:
        import datasets  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise DataError(
            f"{PREFIX}{name}: datasets of the Hugging Face hub need the package datasets, which is not "
            "installed. Install it with `pip install datasets`."
        ) from None
    try:
        dataset = (
            datasets.load_from_disk(name) if Path(name).is_dir() else datasets.load_dataset(name)
        )
    except Exception as error:
        raise DataError(f"{PREFIX}{name} cannot be opened ({error}).") from error
    return dataset if isinstance(dataset, Mapping) else {"train": dataset}


def _columns(rows: Any, name: str) -> tuple[str, str]:
    """Return the names of the image and of the label column."""
    kinds = {column: type(feature).__name__ for column, feature in rows.features.items()}
    images = [column for column, kind in kinds.items() if kind == "Image"]
    labels = [column for column, kind in kinds.items() if kind == "ClassLabel"]
    labels = labels or [column for column in ("label", "labels", "class") if column in kinds]
    if len(images) != 1 or len(labels) != 1:
        columns = ", ".join(f"{column} ({kind})" for column, kind in kinds.items())
        raise DataError(
            f"{name} must have one column of images and one of labels; found: {columns}."
        )
    return images[0], labels[0]


def _common_size(rows: Any, column: str, count: int, limit: int) -> tuple[int, int]:
    """Return the size that all images are resized to, from a few of them."""
    sizes = []
    for place in to_measure(range(count)):
        with contextlib.suppress(Exception):  # it is reported when all images are read
            image = rows[place][column]
            sizes.append((image.height, image.width))
    return size_for(sizes, limit)


def _images(rows: Any, column: str, size: tuple[int, int], where: str) -> Iterator[torch.Tensor]:
    """Yield the images of a split, resized to (height, width)."""
    left = iter(rows)
    for number in itertools.count():
        with explain_faults(f"{where}: image {number} cannot be read"):
            if (row := next(left, None)) is None:
                return
            whole = colours(_picture(row[column], where))
            image = pixels(whole.resize(size[::-1], Image.Resampling.BILINEAR))
        yield image


def _picture(image: Any, where: str) -> Image.Image:
    if not isinstance(image, Image.Image):
        raise DataError(f"{where}: an image is {type(image).__name__}; decode the image column.")
    return image
