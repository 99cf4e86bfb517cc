"""Damaged recipes and `--set` give a valid recipe that can be written and read, or an unspur error."""

from __future__ import annotations

import math
import random
import string
from functools import cache
from pathlib import Path
from typing import Any

from unspur import recipes
from unspur.recipes import Recipe

from .desk import Desk
from .mutators import HUGE, ODD_TEXT, damage, damage_text
from .oracle import Case

VALUES = [
    *(*HUGE, "nan", "inf", "-inf", "true", "''", "[]", "{}", "[1, 2]", "{a = 1}", "1979-05-27"),
    *("-1", "0", "1", "2", "1e-9", "1e6", "99999999", "'x'", "dcwp", "erm", "0x10", "1_000"),
    *("[" * 5000, "{a=" * 2000, "'''", '"\\ud800"', "[[[[1]]]]", "'/etc/passwd'", "'../x'"),
]


def make(rng: random.Random, desk: Desk) -> Case:
    return rng.choice([_file, _file, _change, _change, _change])(rng, desk)


def _file(rng: random.Random, desk: Desk) -> Case:
    path = desk.root / "fuzzed.toml"
    text = _text(rng.choice(recipes.names()))
    if rng.random() < 0.3:
        path.write_bytes(damage(rng, text.encode()))
    else:
        path.write_text(damage_text(rng, text, VALUES), "utf-8", "replace")
    # The error names a built-in recipe if its table contradicts a setting of the file.
    return Case("recipe file", lambda: recipes.load(str(path)), _is_sound, ("fuzzed.toml",))


def _change(rng: random.Random, desk: Desk) -> Case:
    keys = rng.sample(_keys(), rng.choice([1, 1, 2, 4]))
    texts = [f"{_odd_key(rng, key)}={rng.choice(VALUES)}" for key in keys]
    base = rng.choice(recipes.names())

    def call() -> Recipe:
        return recipes.load(base, recipes.parse_changes(texts))

    return Case(f"--set {texts}"[:300], call, _is_sound)


def _odd_key(rng: random.Random, key: str) -> str:
    """Return a key, sometimes one that does not exist."""
    if rng.random() < 0.8:
        return key
    odd = [key + ".x", key[1:], key + rng.choice(ODD_TEXT), "", ".", key.split(".")[0], "a.b.c.d"]
    return rng.choice([*odd, "".join(rng.choices(string.printable, k=6)), ".".join("a" * 3000)])


def _is_sound(found: Recipe, warned: list[str]) -> bool:
    """Return whether all values of a recipe are finite, and its TOML gives the same recipe."""
    tables = found.model_dump()
    path = Path("/nonexistent")  # used only in error messages
    again = recipes.parse(_read(recipes.dump(found)), where=str(path))
    shown = recipes.dump(found) == recipes.dump(again)
    return shown and _is_finite(tables)


def _read(text: str) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(text)


def _is_finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


@cache
def _text(name: str) -> str:
    return recipes.dump(recipes.load(name))


@cache
def _keys() -> list[str]:
    tables = Recipe().model_dump()
    inner = [f"{t}.{k}" for t, table in tables.items() if isinstance(table, dict) for k in table]
    return inner + [name for name, value in tables.items() if not isinstance(value, dict)]
