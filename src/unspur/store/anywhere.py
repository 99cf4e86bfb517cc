"""Write and read small files of results, in a folder of this machine or in an object store."""

from __future__ import annotations

from pathlib import Path

from .addresses import read_address, write_address
from .atomic import write_bytes


def write_anywhere(where: Path | str, content: bytes) -> None:
    """Write a file atomically, and create its folder if it is missing."""
    if isinstance(where, str):
        write_address(where, content)
        return
    where.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(where, content)


def read_anywhere(where: Path | str) -> bytes | None:
    """Return the content of a file, or None if there is none."""
    if isinstance(where, str):
        return read_address(where)
    try:
        return where.read_bytes()
    except FileNotFoundError:
        return None
