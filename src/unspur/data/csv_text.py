"""CSV files that are safe to open in a spreadsheet, and safe reading of text files.

A spreadsheet runs a cell that begins with one of `= + - @`, a tab or a carriage return as a formula. Such a
cell is written with an apostrophe before it, which is removed when the cell is read back.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

FORMULA = re.compile(r"'*[=+\-@\t\r]")
ESCAPED = re.compile(r"'+[=+\-@\t\r]")
RISKY = frozenset("'=+-@\t\r")  # what a cell to escape begins with
MOST_LINE_BYTES = 2**20
PIECE = 2**16  # bytes read at a time
ROWS = 10_000  # rows rendered at a time


def escape_cell(text: str) -> str:
    """Return the text as a cell that no spreadsheet runs as a formula."""
    return f"'{text}" if FORMULA.match(text) else text


def unescape_cell(text: str) -> str:
    """Undo `escape_cell`: return the original text of a cell."""
    return text[1:] if ESCAPED.match(text) else text


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8; raise ValueError if a line is too long for a table.

    Line endings are not converted, because a line ending within quotes is part of a cell.
    """
    _check_lines(path)
    with path.open(encoding="utf-8-sig", newline="") as file:
        return file.read()


def open_lines(text: str) -> io.StringIO:
    """Return the text as a file for `csv.reader`, which handles the line endings itself."""
    return io.StringIO(text, newline="")


def first_line(text: str) -> str:
    return re.split(r"[\r\n]", text, maxsplit=1)[0]


def render_pieces(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield rows, which are read twice, as pieces of CSV, so that they are never all in memory.

    All cells are quoted if one has a carriage return, which csv does not quote.
    """
    has_return = any("\r" in cell for row in rows for cell in row)
    quoting: Literal[0, 1] = csv.QUOTE_ALL if has_return else csv.QUOTE_MINIMAL
    left = iter(rows)
    while some := list(islice(left, ROWS)):
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n", quoting=quoting)
        writer.writerows(
            [escape_cell(cell) if cell[:1] in RISKY else cell for cell in row] for row in some
        )
        yield text.getvalue()


def _check_lines(path: Path) -> None:
    """Raise ValueError at the first line that is too long, without loading the whole file."""
    line = length = 0
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            first, *others = re.split(rb"[\r\n]", piece)
            length += len(first)
            longest = max([length, *map(len, others)])
            if longest > MOST_LINE_BYTES:
                raise ValueError(f"line {line + 1} is longer than {MOST_LINE_BYTES:,} bytes")
            line += piece.count(b"\n")
            length = len(others[-1]) if others else length
