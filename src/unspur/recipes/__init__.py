"""Recipes: every setting and its default, composition by name, published numbers, settings for own data.

May import: errors, training.
"""

from .loading import (
    PLANS,
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
    "PLANS",
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
