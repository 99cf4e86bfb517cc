"""Open shards as splits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import DataError
from ...store.addresses import is_address
from ..decoding.pixels import Crop
from ..splits import Splits
from .shard_index import PARTS, ShardIndex, has_index, read_index
from .shards import Shards

Places = NDArray[np.int64]
MEASURED = 200  # images that are measured to choose the common size


def find_shards(where: Path | str) -> Path | str | None:
    """Return the folder or address of shards with an index, or None if there are none."""
    if is_address(where):
        if not has_index(where):
            raise DataError(
                f"{where} has no index of shards (index.json). Write it with `unspur data pack`."
            )
        return where
    folder = Path(where)
    if has_index(folder):
        return folder
    if (
        folder.is_dir()
        and any(folder.glob("*.tar"))
        and not any(p.is_dir() for p in folder.iterdir())
    ):
        raise DataError(
            f"{folder} has shards (*.tar) but no index of them. Make one with `unspur data index {folder}`."
        )
    return None


def open_shards(folder: Path | str) -> ShardIndex:
    """Read the index of shards, and check that the shards in a folder have the sizes in the index."""
    index = read_index(folder)
    if isinstance(folder, Path):
        for name, length in zip(index.shards, index.lengths, strict=True):
            path = folder / name
            found = path.stat().st_size if path.is_file() else None
            if found != length:
                has = "is missing" if found is None else f"has {found} bytes, not {length}"
                raise DataError(
                    f"{path} {has}, though the index of {folder} lists it. Put it back, or make the index "
                    "again with `unspur data index`."
                )
    return index


def select_images(
    folder: Path | str,
    index: ShardIndex,
    places: Places,
    size: tuple[int, int],
    classes: Sequence[str],
    crop: Crop = "stretch",
) -> Shards:
    """Return the images at some places, with labels that index `classes`."""
    number = {name: place for place, name in enumerate(classes)}
    labels = index.arrays["label"][places]
    for place in np.unique(labels):
        if (name := index.classes[place]) not in number:
            raise DataError(
                f"{folder}: the label {name!r} is not one of the model's classes, "
                f"{', '.join(map(repr, list(classes)[:5]))}."
            )
    to_number = np.array([number.get(name, -1) for name in index.classes], np.int64)
    whole = len(places) == len(index)
    arrays = index.arrays
    return Shards(
        folder,
        index.shards,
        shard=arrays["shard"][places],
        offset=arrays["offset"][places],
        length=arrays["size"][places],
        sha256=arrays["sha256"][places],
        targets=torch.from_numpy(to_number[labels]),
        names=index.names if whole else index.names.among(places),
        size=size,
        crop=crop,
    )


def groups_of(index: ShardIndex, places: Places) -> Tensor | None:
    """Return the number of the group of each image, or None if not all images have one."""
    groups = index.arrays["group"][places]
    return None if (groups < 0).any() else torch.from_numpy(groups.astype(np.int64))


def load_splits(
    folder: Path | str,
    index: ShardIndex,
    size: tuple[int, int],
    classes: tuple[str, ...],
    crop: Crop = "stretch",
) -> Splits:
    """Open the shards of a data set as splits."""
    places = {part: index.places(part) for part in PARTS}
    parts = {
        part: select_images(folder, index, found, size, classes, crop)
        for part, found in places.items()
        if len(found)
    }
    bias = {
        part: groups for part in parts if (groups := groups_of(index, places[part])) is not None
    }
    return Splits(
        train=parts["train"],
        valid=parts.get("valid"),
        test=parts.get("test"),
        classes=classes,
        bias=bias,
        bias_classes=index.groups if bias else (),
        conflict_when="rare",
        name=str(folder).rstrip("/").rpartition("/")[2],
    )


def measured_spans(folder: Path | str, index: ShardIndex, crop: Crop = "stretch") -> Shards:
    """Return a few images, at even distances, to measure their sizes."""
    places = np.arange(len(index))[:: max(1, len(index) // MEASURED)]
    return select_images(folder, index, places, (1, 1), index.classes, crop)
