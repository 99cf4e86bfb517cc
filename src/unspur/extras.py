"""Optional dependencies, imported when they are needed."""

from __future__ import annotations

import importlib
from types import ModuleType


def need(module: str) -> ModuleType:
    """A module of an optional dependency, or an error that says how to get it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        raise ModuleNotFoundError(
            f"this needs {package}, which is not installed. Run: pip install 'unspur[report]'"
        ) from error
