"""What is not ours: optional dependencies, and what installed packages add by entry points."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from importlib import metadata
from types import ModuleType
from typing import Any


def need(module: str) -> ModuleType:
    """A module of an optional dependency, or an error that says how to get it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        raise ModuleNotFoundError(
            f"this needs {package}, which is not installed. Run: pip install 'unspur[report]'"
        ) from error


def registered(group: str, fits: Callable[[object], bool]) -> dict[str, Any]:
    """Return what installed packages add under an entry-point group; a broken addition is a warning."""
    found: dict[str, Any] = {}
    for point in metadata.entry_points(group=group):
        try:
            added = point.load()
        except Exception as error:  # another package's code: whatever is wrong, the rest must work
            warnings.warn(f"{group}: {point.value} cannot be loaded ({error}).", stacklevel=2)
            continue
        if fits(added):
            found[point.name] = added
        else:
            warnings.warn(f"{group}: {point.value} is not what belongs there.", stacklevel=2)
    return found
