"""suspects.csv: what the miner suspects, for a person to read, correct and give back.

    path,label,score,predicted,flag,note
    cat/0012.png,cat,0.9981,dog,suspect,
    dog/0007.png,dog,0.0312,dog,,

One row a training sample, the highest score first; samples without a path are named by their index. Given
back, the flags count: `suspect`, `exclude` (left out of all training), or nothing. A row that is missing is
no suspect. A cell that a spreadsheet would run as a formula has an apostrophe before it. For very many
samples suspects.parquet is written beside it.
"""

from __future__ import annotations

import csv
import itertools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from ..data.csv_text import first_line, open_lines, read_text, render_rows, unescape_cell
from ..data.splits import Part
from ..errors import DataError
from ..stages.corrections import EXCLUDE, SUSPECT, Corrections, sample_names
from ..stages.suspects import Suspects
from ..store import write_bytes
from .suspects_parquet import MANY, PARQUET, SUFFIXES, read_parquet, render_parquet

CSV = "suspects.csv"
# What a person, or a spreadsheet, may write in the flag column.
YES, NO = {SUSPECT, "yes", "true", "1", "x"}, {"", "no", "false", "0"}


def write_suspects(
    path: Path,
    part: Part,
    classes: Sequence[str],
    suspects: Suspects,
    corrections: Corrections | None = None,
) -> None:
    """Write the file, with the user's flags and notes."""
    flags = [SUSPECT if flagged else "" for flagged in suspects.conflict.tolist()]
    notes: Mapping[int, str] = corrections.notes if corrections else {}
    for index in corrections.excluded.nonzero().flatten().tolist() if corrections else []:
        flags[index] = EXCLUDE
    table = SuspectTable(sample_names(part), part, classes, suspects, flags, notes)
    _write(path, render_rows(table).encode())
    beside = path.with_name(PARQUET)
    content = render_parquet(table.columns()) if len(part) > MANY else None
    if content is None:
        move_aside(beside)
    else:
        _write(beside, content)


def _write(path: Path, content: bytes) -> None:
    move_aside(path, content)
    write_bytes(path, content)


@dataclass(frozen=True)
class SuspectTable:
    """The rows of the file, made one by one: a million of them would take much memory."""

    names: Sequence[str]
    part: Part
    classes: Sequence[str]
    suspects: Suspects
    flags: Sequence[str]
    notes: Mapping[int, str]

    @cached_property
    def order(self) -> list[int]:
        """The samples, the highest score first."""
        return torch.argsort(self.suspects.score, descending=True, stable=True).tolist()

    @property
    def named(self) -> str:
        return "path" if self.names is self.part.names else "index"

    def __iter__(self) -> Iterator[Sequence[str]]:
        yield (self.named, "label", "score", "predicted", "flag", "note")
        for i in self.order:
            yield (
                self.names[i],
                self.classes[int(self.part.targets[i])],
                f"{float(self.suspects.score[i]):.4f}",
                self.classes[int(self.suspects.predicted[i])],
                self.flags[i],
                self.notes.get(i, ""),
            )

    def columns(self) -> dict[str, Any]:
        """Return the same as columns, the score as numbers."""
        order = torch.tensor(self.order)
        label, predicted = self.part.targets[order], self.suspects.predicted[order]
        return {
            self.named: [self.names[i] for i in self.order],
            "label": [self.classes[i] for i in label.tolist()],
            "score": self.suspects.score[order].numpy(),
            "predicted": [self.classes[i] for i in predicted.tolist()],
            "flag": [self.flags[i] for i in self.order],
            "note": [self.notes.get(i, "") for i in self.order],
        }


def move_aside(path: Path, content: bytes = b"") -> None:
    """Rename a file of an earlier run with other content: a person may have worked on it."""
    if not path.exists() or path.read_bytes() == content:
        return
    free = (path.with_stem(f"{path.stem}-{number}") for number in itertools.count(1))
    backup = next(each for each in free if not each.exists())
    path.rename(backup)
    warnings.warn(f"{path} was there and is not of this run; it is kept as {backup}.", stacklevel=3)


def read_suspects(path: Path | str, names: Sequence[str]) -> Corrections:
    """Read the file back; `names` are the training samples' as `sample_names` gives them."""
    place = {name: index for index, name in enumerate(names)}
    conflict, excluded = (torch.zeros(len(names), dtype=torch.bool) for _ in range(2))
    notes: dict[int, str] = {}
    seen: dict[int, int] = {}
    is_parquet = Path(path).suffix.lower() in SUFFIXES
    for line, name, flag, note in (read_parquet if is_parquet else _rows)(Path(path)):
        where = f"{path}, {'row' if is_parquet else 'line'} {line}"
        if name not in place:
            raise DataError(
                f"{where}: {name!r} is no training sample. They are named as in the suspects.csv of a "
                f"run, the first one {names[0]!r}. Correct it, or remove the row."
            )
        index = place[name]
        if index in seen:
            raise DataError(f"{where}: {name!r} is in line {seen[index]} too. Remove one of them.")
        seen[index] = line
        conflict[index], excluded[index] = _meaning(flag, where)
        if note:
            notes[index] = note
    return Corrections(conflict, excluded, notes)


def _meaning(flag: str, where: str) -> tuple[bool, bool]:
    """Return a flag as (is a suspect, is left out)."""
    word = flag.strip().lower()
    if word not in YES | NO | {EXCLUDE}:
        raise DataError(
            f"{where}: the flag {flag!r} is unknown. Write {SUSPECT}, {EXCLUDE}, or nothing."
        )
    return word in YES, word == EXCLUDE


def _rows(path: Path) -> Iterator[tuple[int, str, str, str]]:
    """Yield line, name, flag and note of every row, for any separator of cells."""
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


def _cells(path: Path, reader: csv.DictReader[str]) -> Iterator[tuple[int, str, str, str]]:
    """Yield line, name, flag and note of every row; raise where columns or cells are missing."""
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
                "Quote a path that holds a separator."
            )
        name, flag, note = map(unescape_cell, (row[named], row["flag"], row.get("note") or ""))
        yield reader.line_num, name, flag, note
