"""Write CSV cells that spreadsheets read as text, and read text files of limited line length.

A spreadsheet runs a cell that begins with one of `= + - @`, a tab or a carriage return as a formula. Such a
cell is written with an apostrophe before it, which is removed when the cell is read back.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

FORMULA = re.compile(r"'*[=+\-@\t\r]")
ESCAPED = re.compile(r"'+[=+\-@\t\r]")
MOST_CHARACTERS = 2**20  # longest line in bytes
PIECE = 2**16


def escape_cell(text: str) -> str:
    """Return a cell that no spreadsheet runs as a formula."""
    return f"'{text}" if FORMULA.match(text) else text


def unescape_cell(text: str) -> str:
    """Undo `escape_cell`."""
    return text[1:] if ESCAPED.match(text) else text


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8; raise ValueError if a line is too long for a table.

    Line ends are not changed, because a line end within quotes is part of its cell.
    """
    _check_lines(path)
    with path.open(encoding="utf-8-sig", newline="") as file:
        return file.read()


def open_lines(text: str) -> io.StringIO:
    """Return the lines of a table with their line ends, as `csv.reader` needs them."""
    return io.StringIO(text, newline="")


def first_line(text: str) -> str:
    return re.split(r"[\r\n]", text, maxsplit=1)[0]


def render_rows(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as CSV; all cells are quoted if one has a carriage return, which csv does not quote."""
    again = list(rows) if isinstance(rows, Iterator) else rows  # the rows are read twice
    odd = any("\r" in cell for row in again for cell in row)
    text = io.StringIO(newline="")
    quoting: Literal[0, 1] = csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL
    writer = csv.writer(text, lineterminator="\n", quoting=quoting)
    writer.writerows(map(escape_cell, row) for row in again)
    return text.getvalue()


def _check_lines(path: Path) -> None:
    """Raise ValueError at the first line that is too long, before the file is in memory."""
    line = length = 0
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            first, *others = re.split(rb"[\r\n]", piece)
            length += len(first)
            longest = max([length, *map(len, others)])
            if longest > MOST_CHARACTERS:
                raise ValueError(f"line {line + 1} is longer than {MOST_CHARACTERS:,} bytes")
            line += piece.count(b"\n")
            length = len(others[-1]) if others else length
