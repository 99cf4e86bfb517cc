"""Cells of CSV files that a spreadsheet takes as text, and text that is no danger to read.

A spreadsheet runs a cell that begins with one of `= + - @`, a tab or a carriage return as a formula. Such a
cell is written with an apostrophe before it, which is removed when the cell is read back.
"""

from __future__ import annotations

import re
from pathlib import Path

FORMULA = re.compile(r"'*[=+\-@\t\r]")
ESCAPED = re.compile(r"'+[=+\-@\t\r]")
MOST_CHARACTERS = 2**20  # bytes of a line
PIECE = 2**16


def escape_cell(text: str) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{text}" if FORMULA.match(text) else text


def unescape_cell(text: str) -> str:
    """Return the text that `escape_cell` was given."""
    return text[1:] if ESCAPED.match(text) else text


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8; raise ValueError if a line is too long for a table."""
    _check_lines(path)
    return path.read_text("utf-8-sig")


def _check_lines(path: Path) -> None:
    """Raise at the first line that is too long, before the file is in memory."""
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
