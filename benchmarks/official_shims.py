"""Small changes that let the authors' code run with new versions of its packages, made from outside.

Their files are not changed. Each function returns the sentences that describe what it did.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

NAMES = "the search for suspects gets the names of files as a list, which it expects"
# Packages that the code imports, but whose functions the timed stages do not call.
UNUSED = ("imageio", "matplotlib.pyplot", "pandas", "sklearn.manifold", "tqdm")


class Munch(dict[str, Any]):
    """A dictionary whose entries are attributes too, as in the package munch."""

    __setattr__ = dict.__setitem__

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class StandIn(ModuleType):
    """An empty module. Every name in it is a function that does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


def install() -> list[str]:
    """Make all changes that are needed here; return a sentence for each."""
    return [*_replace_missing(), *_rename_tsne_option(), NAMES]


def with_list_of_names(batch: Sequence[Any]) -> list[Any]:
    """Return a batch whose last entry, the names of its files, is a list."""
    return [*batch[:-1], list(batch[-1])]


def _replace_missing() -> list[str]:
    found = []
    if not _is_installed("munch"):
        _put("munch").Munch = Munch  # type: ignore[attr-defined]
        found.append("munch, which is missing, is replaced by a dictionary with attributes")
    for name in UNUSED:
        if not _is_installed(name):
            _put(name)
            package = name.partition(".")[0]
            found.append(f"{package}, which is missing, is replaced by an empty module")
    return found


def _is_installed(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def _put(name: str) -> StandIn:
    """Add an empty module, and the package that it is in, to the imported modules."""
    package, _, inner = name.partition(".")
    module = sys.modules[package] = StandIn(package)
    module.__spec__, module.__path__ = ModuleSpec(package, None), []
    if inner:
        sys.modules[name] = StandIn(name)
        sys.modules[name].__spec__ = ModuleSpec(name, None)
        setattr(module, inner, sys.modules[name])
    return module


def _rename_tsne_option() -> list[str]:
    """Accept the option of t-SNE that scikit-learn has renamed. The timed stages draw no t-SNE."""
    manifold: Any = importlib.import_module("sklearn.manifold")
    usual = manifold.TSNE
    try:
        usual(n_iter=3000)
    except TypeError:
        manifold.TSNE = lambda *args, n_iter=1000, **more: usual(*args, max_iter=n_iter, **more)
        return ["n_iter is passed to scikit-learn's TSNE under its new name, max_iter"]
    return []
