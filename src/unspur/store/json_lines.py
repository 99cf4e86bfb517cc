"""Read and write JSON and JSON lines, compressed with gzip; the same content gives the same bytes."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import StoreError
from .atomic import write_bytes


def write_document(path: Path, content: Any) -> None:
    """Write one JSON document; compact and compressed if the name ends in .gz, else indented."""
    if path.suffix == ".gz":
        write_bytes(path, _compress(_compact(content)))
    else:
        write_bytes(path, (json.dumps(content, indent=1) + "\n").encode())


def read_document(path: Path) -> Any:
    """Read one JSON document, compressed or not."""
    try:
        data = path.read_bytes()
        return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise StoreError(f"{path} cannot be read ({error}).") from None


def write_lines(path: Path, lines: Iterable[Any]) -> None:
    """Write JSON lines beside their place and rename the file into place."""
    write_bytes(path, _compress("".join(_compact(line) for line in lines)))


def read_lines(path: Path) -> tuple[list[Any], str]:
    """Read JSON lines up to the first that is damaged; return them and what is wrong, or ''.

    Only the end of a file can be missing (a copy that was cut short): a line that cannot be read and
    has others after it raises `StoreError`.
    """
    text, problem = _read(path)
    parts = text.split("\n")
    complete, rest = parts[:-1], parts[-1]
    lines = []
    for number, part in enumerate(complete, 1):
        try:
            lines.append(json.loads(part))
        except ValueError:
            if number < len(complete) or rest:
                raise StoreError(_damage(path, number)) from None
            problem = problem or f"line {number} is damaged"
    return lines, problem or (f"line {len(parts)} is incomplete" if rest else "")


def _damage(path: Path, number: int) -> str:
    return (
        f"{path} is damaged: line {number} is not JSON, and lines follow it. Restore the file, for example "
        "with git checkout; nothing was changed."
    )


def _read(path: Path) -> tuple[str, str]:
    """Return the text of a file as far as it can be read, and what is wrong with it, or ''."""
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
