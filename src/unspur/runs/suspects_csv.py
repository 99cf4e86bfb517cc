"""Write and read suspects.csv, the table of suspects that a person can correct.

    path,label,score,predicted,flag,note
    cat/0012.png,cat,0.9981,dog,suspect,
    dog/0007.png,dog,0.0312,dog,,

There is one row per training sample, with the highest score first; samples without a path are named by their
index. When a corrected table is read, its flags count: `suspect`, `exclude` (the image is left out of all
training), or nothing. A sample without a row is not a suspect. If a person has corrected labels, the column
`new_label` has the right class of an image. A cell that a spreadsheet would execute as a formula begins with
an apostrophe. For very many samples suspects.parquet is written too.
"""

from __future__ import annotations

import csv
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import torch
from torch import Tensor

from ..data.csv_text import first_line, open_lines, read_text, render_pieces, unescape_cell
from ..data.splits import Part
from ..errors import DataError
from ..stages.corrections import EXCLUDE, SUSPECT, Corrections, NewLabel
from ..stages.suspects import Suspects
from ..store import write_pieces
from .suspect_rows import NEW_LABEL, CorrectedRow, SuspectRows
from .suspects_parquet import MANY, PARQUET, SUFFIXES, read_parquet, render_parquet

CSV = "suspects.csv"
PIECE = 2**20  # bytes copied at a time
# Words that a person or a spreadsheet may write in the flag column.
YES, NO = {SUSPECT, "yes", "true", "1", "x"}, {"", "no", "false", "0"}


def write_suspects(
    path: Path,
    part: Part,
    classes: Sequence[str],
    suspects: Suspects,
    corrections: Corrections | None = None,
) -> None:
    """Write suspects.csv, with the user's flags, notes and new labels."""
    rows = SuspectRows(part, classes, suspects, corrections)
    _write(path, lambda: map(str.encode, render_pieces(rows)))
    beside = path.with_name(PARQUET)
    file = render_parquet(rows.tables()) if len(part) > MANY else None
    if file is None:
        move_aside(beside)
        return
    with file:
        _write(beside, lambda: _pieces(file))


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the content of an open file."""
    file.seek(0)
    while piece := file.read(PIECE):
        yield piece


def _write(path: Path, pieces: Callable[[], Iterator[bytes]]) -> None:
    move_aside(path, pieces())
    write_pieces(path, pieces())


def move_aside(path: Path, pieces: Iterable[bytes] = ()) -> None:
    """Rename a file of an earlier run if its content differs: a person may have edited it."""
    if not path.exists() or _has_content(path, pieces):
        return
    free = (path.with_stem(f"{path.stem}-{number}") for number in itertools.count(1))
    backup = next(each for each in free if not each.exists())
    path.rename(backup)
    warnings.warn(f"{path} is of another run; it was renamed to {backup}.", stacklevel=3)


def _has_content(path: Path, pieces: Iterable[bytes]) -> bool:
    """Return whether a file consists of the pieces."""
    with path.open("rb") as file:
        return all(file.read(len(piece)) == piece for piece in pieces) and not file.read(1)


def read_suspects(
    path: Path | str,
    names: Sequence[str],
    *,
    targets: Tensor | None = None,
    classes: Sequence[str] = (),
) -> Corrections:
    """Read the file; `names` are the names of the training samples, as `sample_names` returns them.

    `targets` are their labels, and `classes` the names of the classes, which new labels refer to.
    """
    place = {name: index for index, name in enumerate(names)}
    conflict, excluded = (torch.zeros(len(names), dtype=torch.bool) for _ in range(2))
    notes: dict[int, str] = {}
    labels: dict[int, NewLabel] = {}
    seen: dict[int, int] = {}
    is_parquet = Path(path).suffix.lower() in SUFFIXES
    for row in (read_parquet if is_parquet else _rows)(Path(path)):
        where = f"{path}, {'row' if is_parquet else 'line'} {row.line}"
        index = _find(row.name, place, where)
        if index in seen:
            raise DataError(
                f"{where}: {row.name!r} is in line {seen[index]} too. Remove one of them."
            )
        seen[index] = row.line
        conflict[index], excluded[index] = _meaning(row.flag, where)
        if row.note:
            notes[index] = row.note
        if row.new_label and not excluded[index]:
            before = int(targets[index]) if targets is not None else -1
            if (after := _class_number(row.new_label, classes, where)) != before:
                labels[index] = NewLabel(before, after)
    return Corrections(conflict, excluded, notes, labels, str(path))


def _find(name: str, place: Mapping[str, int], where: str) -> int:
    """Return the index of a training sample by its name."""
    if name not in place:
        raise DataError(
            f"{where}: {name!r} is not a training sample. Names are those in the suspects.csv of a run, for "
            f"example {next(iter(place))!r}. Correct it, or remove the row."
        )
    return place[name]


def _class_number(name: str, classes: Sequence[str], where: str) -> int:
    """Return the index of the class of a new label."""
    if name not in classes:
        known = ", ".join(map(repr, classes[:10])) + (" ..." if len(classes) > 10 else "")
        raise DataError(
            f"{where}: the new label {name!r} is not one of the classes ({known}). Write one of them, or "
            "nothing to keep the label."
        )
    return list(classes).index(name)


def _meaning(flag: str, where: str) -> tuple[bool, bool]:
    """Return the meaning of a flag as (is a suspect, is excluded)."""
    word = flag.strip().lower()
    if word not in YES | NO | {EXCLUDE}:
        raise DataError(
            f"{where}: the flag {flag!r} is unknown. Write {SUSPECT}, {EXCLUDE}, or nothing."
        )
    return word in YES, word == EXCLUDE


def _rows(path: Path) -> Iterator[CorrectedRow]:
    """Yield every row; the separator may be a comma, a semicolon or a tab."""
    try:
        text = read_text(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text. Save it as CSV in UTF-8.") from None
    except ValueError as error:
        raise DataError(f"{path}: {error}. Save it again as CSV in UTF-8.") from None
    reader = csv.DictReader(open_lines(text), delimiter=max(",;\t", key=first_line(text).count))
    try:
        yield from _cells(path, reader)
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: not a CSV row ({error}).") from None


def _cells(path: Path, reader: csv.DictReader[str]) -> Iterator[CorrectedRow]:
    """Yield every row; raise DataError if columns or cells are missing."""
    columns = reader.fieldnames or []
    named = next((name for name in ("path", "index") if name in columns), None)
    if named is None or "flag" not in columns:
        raise DataError(
            f"{path}: the first line must name the columns path (or index) and flag; it names "
            f"{', '.join(map(repr, columns)) or 'nothing'}."
        )
    for row in reader:
        if row[named] is None or row["flag"] is None or None in row:
            raise DataError(
                f"{path}, line {reader.line_num}: its cells do not match the {len(columns)} columns. "
                "Quote a path that contains a separator."
            )
        cells = (row[named], row["flag"], row.get("note") or "", row.get(NEW_LABEL) or "")
        yield CorrectedRow(reader.line_num, *map(unescape_cell, cells))
