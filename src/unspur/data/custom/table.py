"""A table of images: columns `path` and `label`, optionally `split` and `group`, as CSV, TSV or parquet.

Paths are relative to the folder of the table. `group`, the value of the suspected shortcut, is for evaluation
only. A cell that a spreadsheet would run as a formula may begin with an apostrophe, as in suspects.csv.
"""

from __future__ import annotations

import csv
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import DataError
from ..csv_text import first_line, open_lines, read_text, unescape_cell
from .listing import PARTS, ListedImage, Listing, printable

SUFFIXES = (".csv", ".tsv", ".parquet")
COLUMNS = ("path", "label", "split", "group")
MISSING = (
    "nan",
    "na",
    "n/a",
    "none",
    "null",
    "<na>",
    "#n/a",
)  # how programs write a missing value


def list_images(path: Path, *, group: str = "", labelled: bool = True) -> Listing:
    """List the images of a table, in its order; `group` names the column of groups (by default `group`).

    The column `label` is required unless `labelled` is False.
    """
    header, records = read_records(path)
    needed = ("path", "label") if labelled else ("path",)
    if missing := [name for name in needed if name not in header]:
        raise DataError(
            f"{printable(path)} has no column {' and no column '.join(missing)}. It needs path and label, "
            f"and may have split and group; found: {', '.join(header) or 'nothing'}."
        )
    column = group.strip().lower() or "group"
    if group and column not in header:
        raise DataError(
            f"{printable(path)} has no column {group!r} to take groups from; it has {', '.join(header)}."
        )
    if repeated := [name for name in (*COLUMNS, column) if header.count(name) > 1]:
        raise DataError(
            f"{printable(path)} has more than one column {' and '.join(repeated)}. Rename all but one."
        )
    rows = [_row(record, path, n, column, needed) for n, record in enumerate(records, 1)]
    if not rows:
        raise DataError(f"{printable(path)} has a header but no row.")
    _check_groups(rows, path)
    _check_paths(rows, path)
    _warn_of_missing(rows, path)
    return Listing(printable(path.name), path.parent, rows)


def _row(
    record: Mapping[str, Any], table: Path, number: int, group: str, needed: Sequence[str]
) -> ListedImage:
    where = f"{printable(table)}, row {number}"
    values = {name: _text(record.get(name)) for name in ("path", "label", "split", group)}
    for name in needed:
        if not values[name]:
            raise DataError(f"{where}: the {name} is empty. Fill it in, or remove the row.")
    if "\0" in values["path"]:
        raise DataError(f"{where}: the path has a zero byte. Correct it, or remove the row.")
    split = values["split"].lower() or "train"
    if split not in PARTS:
        raise DataError(
            f"{where}: the split is {values['split']!r}. Write train, valid or test, or leave it empty "
            "for train."
        )
    return ListedImage(table.parent / values["path"], values["label"], PARTS[split], values[group])


def _text(value: Any) -> str:
    """Return a cell as text: a whole number without a decimal point, a missing value as empty text."""
    if value is None or value != value:
        return ""
    if isinstance(
        value, bytes
    ):  # some programs write text to parquet without saying that it is text
        value = value.decode("utf-8", "replace")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return unescape_cell(str(value).strip())


def _check_groups(rows: list[ListedImage], table: Path) -> None:
    """Raise if only some images of a split have a group."""
    for part in {row.part for row in rows}:
        has_group = [bool(row.group) for row in rows if row.part == part]
        if any(has_group) and not all(has_group):
            number = next(i for i, row in enumerate(rows, 1) if row.part == part and not row.group)
            raise DataError(
                f"{printable(table)}, row {number}: no group, though other images of the {part} split have "
                "one. Fill it in for all of them, or for none."
            )


def _check_paths(rows: list[ListedImage], table: Path) -> None:
    """Raise if an image has two labels; warn if it is listed more than once."""
    first: dict[str, tuple[int, str]] = {}
    repeated = 0
    for number, row in enumerate(rows, 1):
        before, label = first.setdefault(os.path.abspath(row.path), (number, row.label))
        repeated += before != number
        if label != row.label:
            raise DataError(
                f"{printable(table)}, row {number}: {printable(row.path)} has the label {row.label!r}, and "
                f"{label!r} in row {before}. Remove one of the two rows."
            )
    if repeated:
        warnings.warn(
            f"{printable(table)}: {repeated} rows list an image again; each row counts as one image.",
            stacklevel=4,
        )


def _warn_of_missing(rows: list[ListedImage], table: Path) -> None:
    """Warn of labels such as "nan" that usually mean a missing value."""
    for label, count in Counter(row.label for row in rows).items():
        if label.lower() in MISSING:
            warnings.warn(
                f"{printable(table)}: {count} rows have the label {label!r}, which usually means a missing "
                "value. It is used as the name of a class; remove these rows if it is not one.",
                stacklevel=4,
            )


Records = tuple[list[str], Iterable[Mapping[str, Any]]]


def read_records(path: Path) -> Records:
    """Read a table; return the names of its columns in lower case, and its rows."""
    if not path.is_file():
        raise DataError(f"there is no table {printable(path)}.")
    return (_parquet if path.suffix.lower() == ".parquet" else _csv)(path)


def _csv(path: Path) -> Records:
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        raise DataError(
            f"{printable(path)} cannot be read as text in UTF-8 ({error}). Save it again as CSV (UTF-8)."
        ) from None
    first = first_line(text)
    delimiter = "\t" if "\t" in first else ";" if ";" in first and "," not in first else ","
    table = csv.DictReader(open_lines(text), delimiter=delimiter, restkey="")
    try:
        header = [(name or "").strip().lower() for name in table.fieldnames or ()]
    except csv.Error as error:
        raise DataError(f"{printable(path)}: the first line is not a CSV row ({error}).") from None
    table.fieldnames = header
    return header, _records(table, path)


def _records(table: csv.DictReader[str], path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        yield from table
    except csv.Error as error:
        raise DataError(f"{printable(path)}:{table.line_num}: not a CSV row ({error}).") from None


def _parquet(path: Path) -> Records:
    try:
        from pyarrow import parquet  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise DataError(
            f"{printable(path)}: parquet tables need pyarrow, which is not installed. Install it with "
            "`pip install pyarrow`, or save the table as CSV."
        ) from None
    try:
        table = parquet.read_table(path)
    except Exception as error:  # a damaged file can make pyarrow raise anything
        raise DataError(f"{printable(path)} cannot be read as parquet ({error}).") from None
    header = [name.lower() for name in table.column_names]
    return header, table.rename_columns(header).to_pylist()
