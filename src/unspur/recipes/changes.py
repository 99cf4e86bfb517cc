"""Change settings by dotted keys, with Python values or with texts of the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import RecipeError

Changes = Mapping[str, Any]  # values by dotted key


def parse_changes(texts: Iterable[str]) -> dict[str, Any]:
    """Parse `key=value` texts of the command line to values by dotted key; the last value of a key wins."""
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise RecipeError(f"--set {text}: give it as key=value, as in prune.sparsity=1e-6.")
        found.pop(key.strip(), None)  # so that it is applied after a change of its whole table
        found[key.strip()] = _value(value)
    return found


def apply_changes(tables: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Set values by dotted key in nested tables, in place."""
    for key, value in changes.items():
        *path, last = key.split(".")
        table = tables
        for part in path:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise RecipeError(f"{key}: {part} is a setting, not a table of settings.")
        table[last] = value


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text  # text without quotes is a string
