"""Recipes: every setting and its default, composition by name, published numbers, settings for own data.

May import: data, errors, methods, training.
"""

from .changes import parse_changes
from .loading import as_toml, change, dump, load, match, names, parse
from .settings import Recipe

__all__ = [
    "Recipe",
    "as_toml",
    "change",
    "dump",
    "load",
    "match",
    "names",
    "parse",
    "parse_changes",
]
