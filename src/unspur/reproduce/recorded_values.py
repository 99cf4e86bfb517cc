"""Look up one number of a JSON record by its path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import UnspurError
from ..store import read_document


def recorded_value(folder: Path, file: str, path: str) -> Any:
    """Return what a record has at a path, such as `tables/decoding/jpeg_px=500/ms_per_core`.

    The parts of a path are the keys of tables, the places in lists, or `key=value` for the first entry of a
    list that has this value. Several such pairs are separated by semicolons.
    """
    value: Any = read_document(folder / f"{file}.json.gz")
    for part in path.split("/"):
        try:
            value = _entry(value, part)
        except (KeyError, IndexError, ValueError, StopIteration):
            raise UnspurError(f"{file}.json.gz has no {path}: there is no {part!r}.") from None
    return value


def _entry(value: Any, part: str) -> Any:
    if isinstance(value, dict):
        return value[part]
    if "=" not in part:
        return value[int(part)]
    wanted = dict(pair.split("=") for pair in part.split(";"))
    return next(row for row in value if all(str(row.get(k)) == v for k, v in wanted.items()))
