"""Read a table with more columns about images: one row per image, named by its path or index."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import DataError
from ..csv_text import unescape_cell
from .listing import printable
from .table import SUFFIXES, read_records

KEYS = ("path", "index")
# Columns that do not describe an image: its name and label, and the columns of suspects.csv.
NO_PROPERTIES = (*KEYS, "label", "split", "score", "predicted", "flag", "note")
MOST_COLUMNS = 200


@dataclass(frozen=True)
class SampleTable:
    """The columns of a table, with a text for each image, "" if it has no value."""

    columns: Mapping[str, list[str]]
    missing: int  # number of images without a row


def has_properties(path: Path) -> bool:
    """Return whether a path is a table with more columns than an audit needs."""
    if path.suffix.lower() not in SUFFIXES or not path.is_file():
        return False
    return any(name and name not in NO_PROPERTIES for name in read_records(path)[0])


def read_sample_table(
    path: Path, names: Sequence[str], files: Mapping[str, Path] | None = None
) -> SampleTable:
    """Read the columns of a table for the images with these names; rows of other images are ignored.

    A row names its image as suspects.csv does, or by the path of its file relative to the folder of the table
    (`files` maps names to files). Raises DataError if no row belongs to an image.
    """
    header, records = read_records(path)
    key, properties = _check_header(header, path)
    columns = {name: [""] * len(names) for name in properties}
    find = _finder(names, files or {}, path.parent)
    seen: set[int] = set()
    for number, record in enumerate(records, 1):
        index = find(_cell(record.get(key)))
        if index is None:
            continue
        if index in seen:
            raise DataError(
                f"{printable(path)}, row {number}: {names[index]!r} has an earlier row. Remove one of them."
            )
        seen.add(index)
        for name in properties:
            columns[name][index] = _cell(record.get(name))
    if not seen:
        raise DataError(
            f"{printable(path)} has no row of a training image. They are named as in suspects.csv, the first "
            f"one {names[0]!r}; write the same into the column {key}."
        )
    return SampleTable(columns, len(names) - len(seen))


def _check_header(header: Sequence[str], path: Path) -> tuple[str, list[str]]:
    """Return the column that names the images and the columns that describe them; both are required."""
    key = next((name for name in KEYS if name in header), None)
    properties = [name for name in dict.fromkeys(header) if name and name not in NO_PROPERTIES]
    if key is None or not properties:
        raise DataError(
            f"{printable(path)} explains nothing: it needs a column path (or index) and at least one more "
            f"that describes the images; found: {', '.join(header) or 'nothing'}."
        )
    if len(properties) > MOST_COLUMNS:
        raise DataError(
            f"{printable(path)} has {len(properties)} columns; at most {MOST_COLUMNS} can be compared. Keep "
            "those that could be the shortcut."
        )
    return key, properties


def _finder(
    names: Sequence[str], files: Mapping[str, Path], folder: Path
) -> Callable[[str], int | None]:
    """Return a function that finds the image that a cell names."""
    by_name = {os.path.normpath(name): number for number, name in enumerate(names)}
    by_file = {
        os.path.abspath(files[name]): number for number, name in enumerate(names) if name in files
    }

    def find(cell: str) -> int | None:
        if not cell or "\0" in cell:
            return None
        found = by_name.get(os.path.normpath(cell))
        return found if found is not None else by_file.get(os.path.abspath(folder / cell))

    return find


def _cell(value: object) -> str:
    """Return a cell as text; a missing value of parquet is ""."""
    if value is None or value != value:
        return ""
    return unescape_cell(str(value).strip())
