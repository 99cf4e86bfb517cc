"""The table of suspects.csv, which is read once and written whenever a decision changes it.

Columns that a user has added are kept. A row without a decision keeps its flag, note and new label.
"""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ..data.csv_text import escape_cell, first_line, open_lines, unescape_cell
from ..errors import DataError
from ..runs.suspect_rows import COLUMNS, NEW_LABEL
from ..runs.suspects_csv import YES
from ..stages.corrections import EXCLUDE, SUSPECT

KNOWN = (*COLUMNS, NEW_LABEL)
QUOTED = frozenset(',"\r\n')
ESCAPED = tuple("'=+-@\t\r")  # first characters of cells that may need an apostrophe


class RowState(NamedTuple):
    """The columns of one image that a decision can change."""

    flag: str = ""
    new_label: str = ""
    note: str = ""


@dataclass(frozen=True, eq=False)
class SuspectTable:
    """The rows of a suspects.csv in order.

    `name_column` is the column of the names ("path" or "index"), `state` has the flags, new labels and notes
    of the file, and `more` the columns that a user has added.
    """

    name_column: str
    names: Sequence[str]
    labels: Sequence[str]
    scores: Sequence[float]
    predicted: Sequence[str]
    state: Sequence[RowState]
    more: dict[str, Sequence[str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def identity(self) -> str:
        """A hash of the columns that no decision changes: names, labels, scores and predictions."""
        sha = hashlib.sha256(self.name_column.encode())
        for row in zip(self.names, self.labels, self.scores, self.predicted, strict=True):
            sha.update(repr(row).encode("utf-8", "surrogatepass"))
        return sha.hexdigest()

    def classes(self) -> list[str]:
        """Return all classes that occur as a label or a prediction, sorted."""
        return sorted({*self.labels, *self.predicted} - {""})


def parse_table(data: bytes, source: Path) -> SuspectTable:
    """Read a suspects.csv with any common separator; raises DataError if it is not a valid table."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{source} is not UTF-8 text. Save it as CSV in UTF-8.") from None
    reader = csv.DictReader(open_lines(text), delimiter=max(",;\t", key=first_line(text).count))
    try:
        columns = list(reader.fieldnames or [])
        rows = list(reader)
    except csv.Error as error:
        raise DataError(
            f"{source}, line {reader.line_num}: not a valid CSV row ({error}). Correct it."
        ) from None
    name_column = next((name for name in ("path", "index") if name in columns), "")
    if not name_column or "flag" not in columns:
        raise DataError(
            f"{source}: the first line must name the columns path (or index) and flag; it names "
            f"{', '.join(map(repr, columns)) or 'nothing'}."
        )
    return _from_cells(name_column, columns, rows, source)


def _from_cells(
    name_column: str, columns: list[str], rows: list[dict[str, str]], source: Path
) -> SuspectTable:
    cells = {
        column: [_plain(row.get(column) or "") for row in rows]
        for column in dict.fromkeys([name_column, *KNOWN, *columns])
    }
    if len(set(cells[name_column])) < len(rows):
        raise DataError(f"{source}: an image occurs in two rows. Remove one of them.")
    state = zip(map(_plain_flag, cells["flag"]), cells[NEW_LABEL], cells["note"], strict=True)
    return SuspectTable(
        name_column,
        cells[name_column],
        cells["label"],
        [_number(text) for text in cells["score"]],
        cells["predicted"],
        [RowState(*each) for each in state],
        {column: cells[column] for column in columns if column not in (name_column, *KNOWN)},
    )


def _plain(cell: str) -> str:
    return unescape_cell(cell) if cell[:1] == "'" else cell  # fast path: most cells need no change


def _plain_flag(text: str) -> str:
    """Return a flag in its standard form: suspect, exclude, or empty."""
    word = text.strip().lower()
    return SUSPECT if word in YES else word if word == EXCLUDE else ""


def _number(text: str) -> float:
    """Return a score; 0 if there is none."""
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        return 0.0
    return value if math.isfinite(value) else 0.0


class TableWriter:
    """Renders a table with new states; only rows whose state has changed are rendered again."""

    def __init__(self, table: SuspectTable):
        self.table = table
        self._lines: list[str] = []
        self._states: list[RowState] = []
        self._relabelled = False

    def render(self, states: Sequence[RowState]) -> bytes:
        """Return the file as bytes; it has a column of new labels only if a row has a new label."""
        relabelled = any(state.new_label for state in states)
        if relabelled != self._relabelled or not self._lines:
            changed = list(range(len(states)))
            self._lines, self._states = [""] * len(states), list(states)
        else:
            pairs = enumerate(zip(states, self._states, strict=True))
            changed = [i for i, (new, old) in pairs if new is not old]
        self._relabelled = relabelled
        for i in changed:
            self._lines[i], self._states[i] = self._line(i, states[i]), states[i]
        more = (NEW_LABEL,) if relabelled else ()
        header = [self.table.name_column, *COLUMNS, *more, *self.table.more]
        return "\n".join([",".join(map(_cell, header)), *self._lines, ""]).encode()

    def _line(self, row: int, state: RowState) -> str:
        table = self.table
        cells = [table.names[row], table.labels[row], f"{table.scores[row]:.4f}"]
        cells += [table.predicted[row], state.flag, state.note]
        cells += [state.new_label] if self._relabelled else []
        return ",".join(map(_cell, [*cells, *(column[row] for column in table.more.values())]))


def _cell(text: str) -> str:
    """Escape a cell, so that spreadsheets and CSV readers treat it as plain text."""
    text = escape_cell(text) if text[:1] in ESCAPED else text
    return '"' + text.replace('"', '""') + '"' if not QUOTED.isdisjoint(text) else text
