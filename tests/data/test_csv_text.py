"""Cells are escaped for spreadsheets and read back unchanged; endless lines are refused quickly."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from unspur.data.csv_text import MOST_LINE_BYTES, escape_cell, read_text, unescape_cell

CELLS = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\tx",
    "\rx",
    "'=1",
    "''-",
    "'",
    "it's",
    "",
    "a=b",
    "1",
    "cat.png",
]


@pytest.mark.parametrize("cell", CELLS)
def test_escaped_cells_can_be_read_back(cell: str) -> None:
    assert unescape_cell(escape_cell(cell)) == cell


@pytest.mark.parametrize("cell", CELLS)
def test_no_cell_is_a_formula(cell: str) -> None:
    assert escape_cell(cell)[:1] not in tuple("=+-@\t\r")


def test_ordinary_cells_are_not_changed() -> None:
    for cell in ("cat/1.png", "it's", "", "'quoted'", "3"):
        assert escape_cell(cell) == unescape_cell(cell) == cell


def test_a_line_of_a_gigabyte_is_refused_quickly(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with path.open("wb") as file:
        file.write(b"path,label\n")
        file.truncate(2**30)  # zeros that need no disk space
    began = time.process_time()
    with pytest.raises(ValueError, match="line 2 is longer than"):
        read_text(path)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_long_files_of_short_lines_are_read(tmp_path: Path, end: str) -> None:
    text = end.join(f"{number}.png,cat" for number in range(MOST_LINE_BYTES // 8))
    (tmp_path / "a.csv").write_bytes(text.encode())
    assert read_text(tmp_path / "a.csv").splitlines() == text.splitlines()
