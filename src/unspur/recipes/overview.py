"""Summarise the names of the built-in recipes: which ratios and methods each data set has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fnmatch import fnmatch
from itertools import groupby
from typing import NamedTuple

from ..errors import RecipeError
from .catalogue_files import Combination, catalogue
from .messages import suggestion


class RecipeGroup(NamedTuple):
    """Recipes of one data set: every ratio with every method. Recipes with a special name have no ratio."""

    data: str
    ratios: tuple[str, ...]
    methods: tuple[str, ...]


def find_names(text: str) -> list[str]:
    """Return the names that match a pattern (`cmnist/*-dcwp`), or that contain a text without wildcards."""
    pattern = text if any(sign in text for sign in "*?[") else f"*{text}*"
    names = list(catalogue().recipes)
    if not (found := [name for name in names if fnmatch(name, pattern)]):
        hint = suggestion(text.strip("*"), names)
        raise RecipeError(f"no recipe matches {text!r}.{hint} `unspur recipes list` lists all.")
    return found


def group_recipes() -> list[RecipeGroup]:
    """Return the built-in recipes as groups, sorted by data set."""
    parts = [_parts(name, each) for name, each in catalogue().recipes.items()]
    return [
        group
        for data, each in groupby(sorted(parts), key=lambda part: part[0])
        for group in _groups(data, [(ratio, method) for _, ratio, method in each])
    ]


def _parts(name: str, combination: Combination) -> tuple[str, str, str]:
    """Return data set, ratio and method as the name has them."""
    if name == combination.name:
        return combination.data, combination.ratio, combination.method
    data, _, rest = name.partition("/")
    return data, "", rest


def _groups(data: str, pairs: list[tuple[str, str]]) -> Iterator[RecipeGroup]:
    """Yield the methods that have the same ratios together, the most ratios first."""
    ratios_of = defaultdict(list)
    for ratio, method in pairs:
        ratios_of[method].append(ratio)
    same = defaultdict(list)
    for method, ratios in ratios_of.items():
        same[tuple(filter(None, ratios))].append(method)
    for shared in sorted(same, key=len, reverse=True):
        yield RecipeGroup(data, shared, tuple(filter(None, same[shared])))
