"""Recipes: every setting and its default, loading by name, published numbers, settings for own data.

May import: errors, training.
"""

from .loading import PLANS, Recipe, as_toml, change, dump, load, match, names, parse

__all__ = ["PLANS", "Recipe", "as_toml", "change", "dump", "load", "match", "names", "parse"]
