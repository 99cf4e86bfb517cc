"""CelebA: hair colour, which is correlated with gender.

Blond is coded as 1 and so is male, so a sample is conflicting if the two are *equal*: blond men, and women
who are not blond. There are many women who are not blond; there is a shortcut only if most of them are left
out of training. The variants of the data set say how many are kept:

    keep2000    2,000 of them, chosen by the seed, as published; any other number is possible
    all         all of them
    csv         the images that metadata_blonde_subsampled.csv lists
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import DataError
from ..decoding.pixel_cache import decode
from ..decoding.pixels import Crop
from ..splits import Split, Splits

NAME, IMAGES = "celeba", "img_align_celeba"
ATTRIBUTES, PARTITION = "list_attr_celeba.txt", "list_eval_partition.txt"
METADATA = "metadata_blonde_subsampled.csv"
TARGET, BIAS = "Blond_Hair", "Male"
CLASSES, GENDERS = ("not blond", "blond"), ("female", "male")
CODES = {"train": 0, "valid": 1, "test": 2}
SIZE = 224

Labels = NDArray[np.int64]


class Faces(NamedTuple):
    """File names, each with the code of its split and the two labels."""

    names: list[str]
    split: Labels
    blond: Labels
    male: Labels


def load(
    root: Path,
    variant: str = "keep2000",
    *,
    seed: int = 0,
    size: int = SIZE,
    crop: Crop = "square",
    test_crop: Crop | None = None,
    cache: Path | None = None,
) -> Splits:
    """Load the faces below `root`/celeba or `root`, cropped and resized, in the order of their lists.

    `test_crop` is the crop of validation and test images if it differs; `cache` is a folder for decoded
    pixels.
    """
    folder = _folder(root)
    faces = _select_faces(folder, variant, seed)
    _require(folder / IMAGES, "the folder with the aligned images of CelebA")
    splits, bias = {}, {}
    for part in CODES:
        part_crop = crop if part == "train" else test_crop or crop
        splits[part], bias[part] = _read_part(folder, faces, part, size, part_crop, cache)
    return Splits(
        train=splits["train"],
        valid=splits["valid"],
        test=splits["test"],
        classes=CLASSES,
        bias=bias,
        bias_classes=GENDERS,
        conflict_when="equal",
        name=f"{NAME}/{variant}",
        crop=test_crop or crop,
    )


def _read_part(
    folder: Path, faces: Faces, part: str, size: int, crop: Crop, cache: Path | None
) -> tuple[Split, Tensor]:
    """Decode the images of one split; return them with their bias labels."""
    rows = np.flatnonzero(faces.split == CODES[part])
    if not len(rows):
        raise DataError(f"{folder}: no image is listed for the {part} split (code {CODES[part]}).")
    names = tuple(f"{IMAGES}/{faces.names[row]}" for row in rows)
    paths = [folder / name for name in names]
    pixels = decode(paths, size=size, crop=crop, cache=cache, name=f"{NAME}-{part}-{size}")
    split = Split(pixels, torch.from_numpy(faces.blond[rows]), names)
    return split, torch.from_numpy(faces.male[rows])


def find(root: Path) -> None:
    """Raise DataError if the lists or the images are missing."""
    folder = _folder(root)
    if not (folder / METADATA).exists():
        _require(folder / ATTRIBUTES, "the list of attributes of CelebA")
        _require(folder / PARTITION, "the list of the splits of CelebA")
    _require(folder / IMAGES, "the folder with the aligned images of CelebA")


def _folder(root: Path) -> Path:
    here = any((root / name).exists() for name in (ATTRIBUTES, METADATA, IMAGES))
    return root if here else root / NAME


def _select_faces(folder: Path, variant: str, seed: int) -> Faces:
    """Return the faces of a variant."""
    if variant == "csv":
        return _collect(list(_metadata_rows(folder / METADATA)), folder / METADATA)
    keep = re.fullmatch(r"keep([0-9]+)", variant)
    if keep is None and variant != "all":
        raise DataError(
            f"there is no CelebA variant {variant!r}. Choose keep2000 (or another number), all or csv."
        )
    faces = _collect(list(_attribute_rows(folder)), folder / ATTRIBUTES)
    return faces if keep is None else subsample(faces, int(keep[1]), seed=seed)


def subsample(faces: Faces, keep: int, *, seed: int = 0) -> Faces:
    """Keep `keep` random training images of women who are not blond, and all other images."""
    candidates = np.flatnonzero(
        (faces.split == CODES["train"]) & (faces.blond == 0) & (faces.male == 0)
    )
    if keep > len(candidates):
        raise DataError(
            f"{len(candidates)} women who are not blond are listed for training, so {keep} cannot be kept. "
            "Choose a smaller number, or the variant 'all'."
        )
    dropped = np.random.default_rng([seed, 0]).permutation(candidates)[keep:]
    rows = np.setdiff1d(np.arange(len(faces.names)), dropped)
    names = [faces.names[row] for row in rows]
    return Faces(names, faces.split[rows], faces.blond[rows], faces.male[rows])


Row = tuple[str, int, int, int]  # file name, code of the split, blond, male


def _collect(rows: list[Row], path: Path) -> Faces:
    if not rows:
        raise DataError(f"{path} lists no image. Get it again.")
    names, split, blond, male = zip(*rows, strict=True)
    return Faces(list(names), np.array(split), np.array(blond), np.array(male))


def _attribute_rows(folder: Path) -> Iterator[Row]:
    """Yield rows of the official list of attributes, with the split from the list of partitions."""
    attributes, partition = folder / ATTRIBUTES, folder / PARTITION
    _require(attributes, "the list of attributes of CelebA")
    _require(partition, "the list of the splits of CelebA")
    codes = dict(_fields(line, 2, f"{partition}:{n}") for n, line in _lines(partition))
    lines = _lines(attributes)[1:]  # the first line is the number of lines
    columns = lines[0][1].split() if lines else []
    target, bias = (_column(columns, name, attributes) + 1 for name in (TARGET, BIAS))
    for number, line in lines[1:]:
        where = f"{attributes}:{number}"
        fields = _fields(line, len(columns) + 1, where)
        if (name := fields[0]) not in codes:
            raise DataError(f"{where}: {name} has no split in {partition}. Get both lists again.")
        yield (
            name,
            _code(codes[name], where),
            _bit(fields[target], where),
            _bit(fields[bias], where),
        )


def _metadata_rows(path: Path) -> Iterator[Row]:
    """Yield rows of the released table, which is already subsampled."""
    _require(path, "the table of the sub-sampled CelebA")
    with path.open(newline="", encoding="utf-8") as file:
        table = csv.DictReader(file)
        for name in ("image_id", "split", TARGET, BIAS):
            _column(list(table.fieldnames or ()), name, path)
        for row in table:
            where = f"{path}:{table.line_num}"
            bits = _bit(row[TARGET], where), _bit(row[BIAS], where)
            yield row["image_id"], _code(row["split"], where), *bits


def _require(path: Path, what: str) -> None:
    if not path.exists():
        raise DataError(f"CelebA is incomplete: {path} is missing, {what}. Put it there.")


def _lines(path: Path) -> list[tuple[int, str]]:
    """Return the lines that are not blank, with their numbers."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as text ({error}). Get it again.") from error
    return [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def _fields(line: str, count: int, where: str) -> list[str]:
    fields = line.split()
    if len(fields) != count:
        raise DataError(f"{where}: {count} fields are needed, not {len(fields)}. Get it again.")
    return fields


def _column(columns: list[str], name: str, path: Path) -> int:
    if name not in columns:
        raise DataError(f"{path} has no column {name}. Get it again.")
    return columns.index(name)


def _code(text: str | None, where: str) -> int:
    if text not in ("0", "1", "2"):
        raise DataError(
            f"{where}: the split is {text!r}, not 0 (train), 1 (valid) or 2 (test). Correct it."
        )
    return int(text)


def _bit(text: str | None, where: str) -> int:
    """Return an attribute as 0 or 1; files write it as -1 or 1, some as 0 or 1."""
    if text not in ("-1", "0", "1"):
        raise DataError(f"{where}: an attribute is {text!r}, not -1 or 1. Correct it.")
    return int(text == "1")
