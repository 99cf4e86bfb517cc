"""Import a package's public names when they are first used.

A package whose `__init__` imports all of its files is slow to import and always loads torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a module `__getattr__` that imports each public name from the file that defines it.

    `homes` maps a file (dotted, relative to the package) to the names it defines, separated by spaces.
    """
    files = {name: file for file, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in files:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{files[name]}"), name)

    return find
