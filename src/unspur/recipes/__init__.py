"""Recipes: all settings with defaults, composition by name, published numbers, settings for own images.

Modules are imported when their names are first used. May import: data, deprecation,
errors, lazy, methods, training.
"""

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .changes import parse_changes
    from .loading import change, dump, load, match, names, parse
    from .settings import Recipe
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "changes": "parse_changes",
            "loading": "change dump load match names parse",
            "settings": "Recipe",
        },
    )

__all__ = [
    "Recipe",
    "change",
    "dump",
    "load",
    "match",
    "names",
    "parse",
    "parse_changes",
]
