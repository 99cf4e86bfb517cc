"""Load code of other packages: optional dependencies, and additions by entry points."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from importlib import metadata
from types import ModuleType
from typing import Any


def need(module: str, extra: str = "report") -> ModuleType:
    """Import a module of an optional dependency, or raise an error that says how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        raise ModuleNotFoundError(
            f"this needs {package}, which is not installed. Run: pip install 'unspur[{extra}]'"
        ) from error


def load_entry_points(group: str, problem: Callable[[str, Any], str]) -> dict[str, Any]:
    """Return the objects that installed packages add to a group of entry points, by name.

    `problem(name, value)` returns what is wrong with an addition, or "". A broken addition is left out with a
    warning, so that one package cannot break the others.
    """
    found: dict[str, Any] = {}
    for point in metadata.entry_points(group=group):
        value, reason = _load(point)
        reason = reason or problem(point.name, value)
        if not reason and point.name in found:
            reason = "another installed package has added this name already"
        if reason:
            warnings.warn(_left_out(point, reason), stacklevel=2)
        else:
            found[point.name] = value
    return found


def _load(point: metadata.EntryPoint) -> tuple[Any, str]:
    """Import the object of an entry point; return it, and what went wrong or ""."""
    try:
        return point.load(), ""
    except Exception as error:  # another package's code can raise anything
        return None, f"importing it raised {type(error).__name__}: {error}"


def _left_out(point: metadata.EntryPoint, reason: str) -> str:
    package = f"the package {point.dist.name}" if point.dist else "its package"
    return (
        f"{point.group}: {point.name!r} ({point.value}) is left out: {reason}. "
        f"Update or uninstall {package}."
    )
