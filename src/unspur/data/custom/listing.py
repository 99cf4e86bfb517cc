"""Lists of a user's images, before any is opened: files with a label, optionally a split and a group."""

from __future__ import annotations

import math
import os
import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from ...errors import DataError

PARTS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("valid", "val", "validation", "dev"), "valid"),
    **dict.fromkeys(("test", "testing"), "test"),
}
FEW, IMBALANCE = 10, 20  # warn of classes with fewer images, and of larger ratios between classes
MOST_CLASSES = 32_768


class ListedImage(NamedTuple):
    """One image. `group` is only used for evaluation."""

    path: Path
    label: str
    part: str = "train"
    group: str = ""


class Listing(NamedTuple):
    """All images of a data set, and the folder that their names are relative to."""

    name: str
    root: Path
    rows: list[ListedImage]

    def classes(self) -> tuple[str, ...]:
        return in_order({row.label for row in self.rows})

    def of(self, part: str) -> list[ListedImage]:
        return [row for row in self.rows if row.part == part]


def printable(path: Path | str, root: Path | None = None) -> str:
    """Return a path as text, relative to `root` if below it. Bytes that are not UTF-8 are replaced."""
    path = Path(path)
    if root is not None and path.is_relative_to(root):
        path = path.relative_to(root)
    return os.fsencode(path).decode("utf-8", "replace")


def names_of_splits(names: Iterable[str], where: str) -> dict[str, str]:
    """Return the name of each split among `names`; raise if two names mean the same split."""
    found: dict[str, str] = {}
    for name in sorted(names):
        if (part := PARTS.get(name.lower())) in found:
            raise DataError(
                f"{where} has both {found[part]} and {name}, which mean the same split ({part}). Keep one "
                "of them, or put their images together."
            )
        if part is not None:
            found[part] = name
    return found


def in_order(words: set[str]) -> tuple[str, ...]:
    """Sort words as numbers if all are numbers, otherwise alphabetically."""
    try:
        numbers = {word: float(word) for word in words}
    except ValueError:
        return tuple(sorted(words))
    if any(map(math.isnan, numbers.values())):  # NaN cannot be sorted
        return tuple(sorted(words))
    return tuple(sorted(words, key=lambda word: (numbers[word], word)))


def check(listing: Listing) -> None:
    """Raise if the listing cannot be trained on; warn of rare or imbalanced classes."""
    classes = listing.classes()
    if not listing.rows:
        raise DataError(f"{listing.name} has no image.")
    if not listing.of("train"):
        raise DataError(f"{listing.name} has no image to train on: the train split is empty.")
    if len(classes) < 2:
        raise DataError(
            f"{listing.name} has a single class, {classes[0]!r}; a classifier needs two or more. Give "
            "each class its own folder (or label)."
        )
    check_class_count(len(classes), listing.name)
    _check_spelling(classes, listing.name)
    per_class = counts(listing.of("train"))
    if missing := [name for name in classes if name not in per_class]:
        raise DataError(
            f"{listing.name}: no image to train on for {_quote(missing)}, which other splits have."
        )
    _warn_of_counts(listing.name, {name: per_class[name] for name in classes})


def check_counts(name: str, per_class: dict[str, int]) -> None:
    """Raise if shards with these counts cannot be trained on; warn of rare or imbalanced classes."""
    if len(per_class) < 2:
        raise DataError(f"{name} has a single class; a classifier needs two or more.")
    check_class_count(len(per_class), name)
    if missing := [label for label, count in per_class.items() if not count]:
        raise DataError(
            f"{name}: no image to train on for {_quote(missing)}, which other splits have."
        )
    _warn_of_counts(name, per_class)


def check_class_count(count: int, name: str) -> None:
    """Raise if there are too many classes."""
    if count > MOST_CLASSES:
        raise DataError(
            f"{name} has {count:,} classes; there may be at most {MOST_CLASSES:,}. Are these really the "
            "labels, not the names or numbers of the images?"
        )


def check_known(listing: Listing, classes: Sequence[str]) -> None:
    """Raise if a label is not one of the classes of a model."""
    for row in listing.rows:
        if row.label not in classes:
            _check_spelling([*classes, row.label], listing.name)
            raise DataError(
                f"{printable(row.path)}: the label {row.label!r} is not one of the model's classes, "
                f"{_quote(classes)}."
            )


def _check_spelling(classes: Sequence[str], name: str) -> None:
    """Raise if two classes look the same, as é does as one character and as e with an accent (macOS)."""
    same: dict[str, str] = {}
    for label in classes:
        other = same.setdefault(unicodedata.normalize("NFC", label), label)
        if other != label:
            raise DataError(
                f"{name} has the class {label!r} in two spellings that look the same, {other!a} and "
                f"{label!a}. Rename one of them, so that both are the same Unicode characters."
            )


def counts(rows: Sequence[ListedImage]) -> dict[str, int]:
    """Count the images of each label."""
    numbers: dict[str, int] = {}
    for row in rows:
        numbers[row.label] = numbers.get(row.label, 0) + 1
    return numbers


def _warn_of_counts(name: str, per_class: dict[str, int]) -> None:
    summary = ", ".join(f"{label}: {count}" for label, count in list(per_class.items())[:20])
    few = [label for label, count in per_class.items() if count < FEW]
    if few:
        warnings.warn(
            f"{name}: fewer than {FEW} images to train on for {_quote(few)} ({summary}). Results "
            "for them are not reliable.",
            stacklevel=3,
        )
    elif max(per_class.values()) > IMBALANCE * min(per_class.values()):
        warnings.warn(
            f"{name}: one class has over {IMBALANCE} times the images of another ({summary}). Look at the "
            "accuracy of each class, not at the average alone.",
            stacklevel=3,
        )


def _quote(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(repr(name) for name in names[:most]) + more
