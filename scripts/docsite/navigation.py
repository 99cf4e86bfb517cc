"""The navigation: `folder/` in mkdocs.yml stands for its pages, `*` for all that nothing else names."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any

UNLISTED = ("source/*",)


def expand(nav: list[Any], pages: list[str]) -> list[Any]:
    """Return the navigation with every page in it."""
    folders = [name for name in leaves(nav) if name.endswith("/")]
    named = {*leaves(nav)}
    rest = [page for page in sorted(pages) if page not in named and not _is_unlisted(page)]
    share = {folder: [page for page in rest if page.startswith(folder)] for folder in folders}
    placed = {page for found in share.values() for page in found}
    share["*"] = [page for page in rest if page not in placed]
    return _replaced(nav, share)


def leaves(nav: list[Any]) -> Iterator[str]:
    """Yield the pages that a navigation names."""
    for entry in nav:
        value = next(iter(entry.values())) if isinstance(entry, dict) else entry
        if isinstance(value, list):
            yield from leaves(value)
        else:
            yield value


def _is_unlisted(page: str) -> bool:
    return any(fnmatch(page, pattern) for pattern in UNLISTED)


def _replaced(nav: list[Any], share: dict[str, list[str]]) -> list[Any]:
    found: list[Any] = []
    for entry in nav:
        if isinstance(entry, dict):
            ((title, value),) = entry.items()
            found.append({title: _replaced(value, share) if isinstance(value, list) else value})
        else:
            found += share.get(entry, [entry])
    return found
