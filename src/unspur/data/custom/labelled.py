"""Labelled images to evaluate a model on: a folder, table or dataset, with groups if they are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from ...errors import DataError
from ..decoding.files import Files
from ..decoding.pixels import Crop
from ..sharded.shard_splits import find_shards, groups_of, open_shards, select_images
from ..sharded.shards import Shards
from ..splits import Part, Split, Splits, rare_groups
from . import hub
from .dataset import collect, dataset_classes
from .images import open_listing
from .listing import check_known
from .sources import USUAL_GROUPS, GroupSource, check_groups, list_source

ORDER = ("test", "valid", "train")  # the first of these that exists is evaluated


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Images with labels (indices into `classes`), and if known their groups and which are conflicting.

    `files` are the files of images that are listed, also of those that cannot be read.
    """

    part: Part
    classes: tuple[str, ...]
    name: str = "data"
    split: str = ""
    groups: Tensor | None = None
    group_names: tuple[str, ...] = ()
    conflict: Tensor | None = None
    files: tuple[Path, ...] = ()

    def matched(self, classes: Sequence[str]) -> LabelledImages:
        """Return the same images with labels that index a model's `classes`, matched by name."""
        if tuple(classes) == self.classes or _only_numbers(classes, len(self.classes)):
            return replace(self, classes=tuple(classes))
        if unknown := [name for name in self.classes if name not in classes]:
            raise DataError(
                f"{self.name} has the class {unknown[0]!r}, which the model does not have; it has "
                f"{', '.join(map(repr, classes))}. Rename the class, or leave its images out."
            )
        number = torch.tensor([list(classes).index(name) for name in self.classes])
        part = _with_targets(self.part, number[self.part.targets])
        return replace(self, part=part, classes=tuple(classes))


def _only_numbers(classes: Sequence[str], count: int) -> bool:
    """Return whether a model's class names are just the numbers 0 to `count` - 1."""
    return list(classes) == [str(number) for number in range(count)]


def _with_targets(part: Part, targets: Tensor) -> Part:
    if isinstance(part, Files | Shards):
        return replace(part, targets=targets)
    return Split(part.take(torch.arange(len(part))), targets, part.names)


def evenly_spaced(count: int, most: int) -> list[int]:
    """Return at most `most` of `count` places, at even distances; 0 means all."""
    chosen = min(count, most or count)
    return [place * count // chosen for place in range(chosen)]


def open_labelled(
    where: Path | str,
    *,
    size: tuple[int, int],
    classes: tuple[str, ...],
    crop: Crop = "stretch",
    groups: GroupSource = USUAL_GROUPS,
    most: int = 0,
) -> LabelledImages:
    """Open images to evaluate a model with these classes: the test, validation or training split.

    The first of these splits that exists is used, and only that split is decoded. `most` is the largest
    number of images, taken at even distances; 0 means all.
    """
    if str(where).startswith(hub.PREFIX):
        column = hub.group_column(str(where), groups)
        return _open_hub(str(where), size=size, classes=classes, group=column)
    if (shards := find_shards(where)) is not None:
        check_groups(str(where), groups)
        return _open_shards(shards, size, classes, crop, most)
    listing = list_source(Path(where), groups, need_train=False)
    split = next(name for name in ORDER if listing.of(name))
    rows = listing.of(split)
    rows = [rows[place] for place in evenly_spaced(len(rows), most)]
    selection = listing._replace(rows=[row._replace(part="train") for row in rows])
    check_known(selection, classes)
    opened = open_listing(selection, size, classes, crop=crop)
    found = _from_split(opened, "train", whole=len(rows) == len(listing.rows), split=split)
    train = [] if split == "train" else [(row.label, row.group) for row in listing.of("train")]
    files = tuple(row.path for row in rows)
    return replace(found, conflict=_conflicting(train, found), files=files)


def _open_shards(
    folder: Path | str, size: tuple[int, int], classes: tuple[str, ...], crop: Crop, most: int
) -> LabelledImages:
    """Open the split of shards that is evaluated."""
    index = open_shards(folder)
    split = next(name for name in ORDER if len(index.places(name)))
    places = index.places(split)
    places = places[evenly_spaced(len(places), most)]
    groups, train = groups_of(index, places), index.places("train")
    known, conflict = groups_of(index, train), None
    if groups is not None and known is not None and len(train) and split != "train":
        labels = torch.from_numpy(index.arrays["label"].astype(np.int64))
        rare = rare_groups(labels[train], known, len(index.classes), len(index.groups))
        conflict = rare[labels[places], groups]
    return LabelledImages(
        select_images(folder, index, places, size, classes, crop),
        classes,
        str(folder),
        "" if len(places) == len(index) else split,
        groups,
        index.groups if groups is not None else (),
        conflict,
    )


def _open_hub(
    where: str, *, size: tuple[int, int], classes: tuple[str, ...], group: str
) -> LabelledImages:
    parts = hub.open_splits(where)
    usual = {name: rows for name, rows in parts.items() if name in ORDER} or parts
    labelled = hub.with_labels(usual, where) if usual else {}
    split = next((name for name in (*ORDER, *labelled) if name in labelled), "")
    if not split:
        raise DataError(f"{where} has no split to evaluate.")
    opened = hub.convert(
        {"train": parts[split]}, name=where, size=size, classes=classes, group=group
    )
    return _from_split(opened, "train", whole=len(parts) == 1, split=split)


def _from_split(splits: Splits, part: str, *, whole: bool, split: str) -> LabelledImages:
    return LabelledImages(
        splits.parts()[part],
        splits.classes,
        splits.name,
        "" if whole else split,
        splits.bias.get(part),
        splits.bias_classes if part in splits.bias else (),
    )


def _conflicting(train: Sequence[tuple[str, str]], found: LabelledImages) -> Tensor | None:
    """Return which images are conflicting: their group is rarer in their class than in all of training.

    `train` has the label and the group of every training image. Groups that only training has count too.
    """
    if found.groups is None or not train or not all(group for _, group in train):
        return None
    groups = dict.fromkeys([*found.group_names, *(group for _, group in train)])
    label_number, group_number = (
        {n: i for i, n in enumerate(ns)} for ns in (found.classes, groups)
    )
    known = [
        (label_number[label], group_number[group])
        for label, group in train
        if label in label_number
    ]
    targets, bias = torch.tensor(known, dtype=torch.int64).reshape(-1, 2).T
    rare = rare_groups(targets, bias, len(found.classes), len(groups))
    return rare[found.part.targets, found.groups]


def of_splits(splits: Splits) -> LabelledImages:
    """Return the split of a data set to evaluate: test, else validation, else training."""
    split = next(name for name in ORDER if name in splits.parts())
    found = _from_split(splits, split, whole=False, split=split)
    return replace(found, conflict=splits.conflicting(split))


def of_dataset(
    images: Dataset[Any] | Part,
    classes: tuple[str, ...],
    groups: Tensor | Sequence[Any] | None = None,
) -> LabelledImages:
    """Return a dataset or a split as labelled images; `classes` are those of the model.

    If the dataset has class names that the model has too, its labels are numbers of these names.
    """
    part = images if isinstance(images, Split | Files) else collect(images, name="scored")  # type: ignore[arg-type]
    if len(part) == 0:
        raise DataError("there is no image to evaluate.")
    names = dataset_classes(images)
    names_used = names if names and set(names) <= set(classes) else classes
    if int(part.targets.max()) >= len(names_used):
        raise DataError(
            f"the label {int(part.targets.max())} is out of range: the model has {len(names_used)} classes, "
            "numbered from 0."
        )
    numbers, group_names = _number_groups(groups, len(part))
    return LabelledImages(part, names_used, groups=numbers, group_names=group_names)


def _number_groups(
    groups: Tensor | Sequence[Any] | None, count: int
) -> tuple[Tensor | None, tuple[str, ...]]:
    """Convert groups (numbers or words) to numbers; return them and the names of the groups."""
    if groups is None:
        return None, ()
    words = [str(each) for each in (groups.tolist() if isinstance(groups, Tensor) else groups)]
    if len(words) != count:
        raise DataError(f"{count} images need as many groups, not {len(words)}.")
    names = sorted(set(words), key=lambda word: (len(word), word))
    number: Mapping[str, int] = {name: i for i, name in enumerate(names)}
    return torch.tensor([number[word] for word in words]), tuple(names)
