"""Read and write JSON and JSON lines: documents and records, compressed with gzip, and plain logs.

The same content gives the same bytes. Rows are appended to a log during training; damaged lines of a log
are left out when it is read.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import StoreError
from .atomic import write_bytes


def write_document(path: Path, content: Any) -> None:
    """Write one JSON document: compact and compressed if the name ends in .gz, otherwise indented."""
    if path.suffix == ".gz":
        write_bytes(path, _compress(_compact(content)))
    else:
        write_bytes(path, (json.dumps(content, indent=1) + "\n").encode())


def read_document(path: Path) -> Any:
    """Read one JSON document, compressed or not."""
    try:
        data = path.read_bytes()
        return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    except (OSError, ValueError, EOFError, RecursionError, zlib.error) as error:
        raise StoreError(f"{path} cannot be read ({error}).") from None


def write_lines(path: Path, lines: Iterable[Any]) -> None:
    """Write compressed JSON lines atomically."""
    write_bytes(path, _compress("".join(_compact(line) for line in lines)))


def read_lines(path: Path) -> tuple[list[Any], str]:
    """Read JSON lines; return them and what is wrong with the end of the file, or ''.

    A missing or damaged end (of an incomplete copy) is tolerated. A damaged line that is followed by others
    raises `StoreError`.
    """
    text, problem = _read(path)
    parts = text.split("\n")
    complete, rest = parts[:-1], parts[-1]
    lines = []
    for number, part in enumerate(complete, 1):
        try:
            lines.append(json.loads(part))
        except (ValueError, RecursionError):
            if number < len(complete) or rest:
                raise StoreError(_damage(path, number)) from None
            problem = problem or f"line {number} is damaged"
    return lines, problem or (f"line {len(parts)} is incomplete" if rest else "")


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Append a row to a log."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def cut_incomplete(path: Path) -> None:
    """Cut a log after its last newline, so that the next row begins on a new line."""
    data = path.read_bytes() if path.exists() else b""
    if (end := data.rfind(b"\n") + 1) < len(data):
        os.truncate(path, end)


def parse_rows(data: bytes) -> tuple[list[dict[str, Any]], int]:
    """Return the rows of a log (numbers by name), and how many lines are not such a row."""
    lines = [line for line in data.split(b"\n") if line]
    rows = [row for line in lines if (row := _row(line)) is not None]
    return rows, len(lines) - len(rows)


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
        [float(value) for value in row.values()]
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    return row if all(isinstance(v, int | float) for v in row.values()) else None


def _damage(path: Path, number: int) -> str:
    return (
        f"{path} is damaged: line {number} is not JSON, and other lines follow it. Restore the file, for "
        "example with git checkout; nothing was changed."
    )


def _read(path: Path) -> tuple[str, str]:
    """Return as much of the text of a file as can be read, and what is wrong with it, or ''."""
    try:
        text, problem = _decompress(path.read_bytes())
    except FileNotFoundError:
        return "", ""
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}).") from None
    return text.decode(errors="replace"), problem


def _decompress(data: bytes) -> tuple[bytes, str]:
    stream, parts = zlib.decompressobj(wbits=31), []
    try:
        for start in range(0, len(data), 1024):
            parts.append(stream.decompress(data[start : start + 1024]))
    except zlib.error as error:
        return b"".join(parts), str(error)
    more, problem = _decompress(stream.unused_data) if stream.unused_data else (b"", "")
    return b"".join([*parts, more]), problem or ("" if stream.eof else "the file is cut short")


def _compact(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False) + "\n"


def _compress(text: str) -> bytes:
    return gzip.compress(text.encode(), 9, mtime=0)
