"""Recipes: every setting and its default, composition by name, published numbers, settings for own data.

May import: data, errors, methods, training.
"""

from .loading import (
    Recipe,
    as_toml,
    change,
    dump,
    load,
    match,
    names,
    parse,
    parse_changes,
)

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
