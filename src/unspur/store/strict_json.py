"""Read JSON strictly: anything that unspur itself would not write raises an error here, not later."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from ..errors import StoreError

# The largest JSON file that is read. Ours have at most a tenth of it (a million class names).
MOST_BYTES = 2**28
LARGEST = 2**63


def parse_json(data: bytes | str, source: Path | str) -> Any:
    """Parse JSON text; error messages name `source`.

    Refuses repeated keys, numbers that are not finite or need more than 64 bits, text that is not UTF-8, and
    tables nested too deeply to be read.
    """
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        content = json.loads(
            text,
            object_pairs_hook=_table,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_bounded,
        )
        if "\\u" in text:
            json.dumps(content, ensure_ascii=False).encode()  # raises for half a surrogate pair
    except RecursionError:
        raise StoreError(f"{source} is damaged (it is nested too deeply).") from None
    except ValueError as error:
        raise StoreError(f"{source} is damaged ({error}).") from None
    return content


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a result's folder."""
    if not path.exists():
        raise StoreError(f"{path} is missing: {path.parent} is not the folder of a run.")
    content = parse_json(read_regular(path, MOST_BYTES), path)
    if not isinstance(content, dict):
        raise StoreError(f"{path} is damaged (it is not a JSON object).")
    return content


def read_regular(path: Path, most: int) -> bytes:
    """Read a file; raise StoreError for anything that is not a regular file of at most `most` bytes."""
    try:
        if not path.is_file():
            raise StoreError(f"{path} is missing, or is not a file.")
        if (size := path.stat().st_size) > most:
            raise StoreError(f"{path} has {size} bytes; at most {most} are read.")
        return path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}).") from None


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a key occurs twice")
    return table


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a number")


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"the number {text[:30]} is too large")
    return number


def _bounded(text: str) -> int:
    if len(text) > 20 or not -LARGEST <= (number := int(text)) < LARGEST:
        raise ValueError(f"the number {text[:30]} is too large")
    return number
