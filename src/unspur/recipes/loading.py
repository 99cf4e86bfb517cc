"""Recipes as files: found by name, read, changed, checked, written.

A recipe is TOML with one table a stage (settings.py has every key and its default); `unspur run` takes its
name or path, and `--set prune.sparsity=1e-6` changes one setting.
"""

from __future__ import annotations

import difflib
import fnmatch
import json
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..errors import RecipeError
from .settings import Recipe, recipe_class

__all__ = ["Recipe", "as_toml", "change", "dump", "load", "match", "names", "parse"]


def load(name: str, changes: Iterable[str] = ()) -> Recipe:
    """A recipe by built-in name (`cmnist/1pct-dcwp`) or path, with `key=value` changes."""
    path, text = _find(name)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{path}: not valid TOML: {error}.") from None
    table.setdefault("name", name.removesuffix(".toml"))
    return parse(table, changes, where=path)


def parse(table: Mapping[str, Any], changes: Iterable[str] = (), *, where: str) -> Recipe:
    """A checked recipe from plain tables."""
    whole = json.loads(json.dumps(table, default=str))  # dates, which TOML knows, become text
    for change in changes:
        _change(whole, change)
    try:
        return recipe_class().model_validate_json(json.dumps(whole, default=str))
    except ValidationError as error:
        raise RecipeError(_explain(error, where)) from None


def change(recipe: Recipe, changes: Iterable[str] | Mapping[str, Any]) -> Recipe:
    """The recipe with some changes: dotted keys and values, or `key=value` texts."""
    texts = (
        [f"{k}={as_toml(v)}" for k, v in changes.items()]
        if isinstance(changes, Mapping)
        else changes
    )
    return parse(recipe.model_dump(), texts, where=recipe.name)


def parse_changes(texts: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise RecipeError(f"--set {text}: give it as key=value, as in prune.sparsity=1e-6.")
        try:
            found[key.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[key.strip()] = value
    return found


def names() -> list[str]:
    """The built-in recipes."""
    root = resources.files(__package__)
    with resources.as_file(root) as folder:
        return sorted(
            p.relative_to(folder).with_suffix("").as_posix() for p in folder.rglob("*.toml")
        )


def match(pattern: str) -> list[str]:
    """The built-in recipes a pattern such as `cmnist/*-dcwp` names; a plain name or path stays itself."""
    if not any(sign in pattern for sign in "*?["):
        return [pattern]
    if not (found := fnmatch.filter(names(), pattern)):
        raise RecipeError(f"no recipe matches {pattern!r}. Known: {', '.join(names())}.")
    return found


def dump(recipe: Recipe) -> str:
    """The recipe as TOML, with every table its plan reads."""
    top = {k: v for k, v in recipe.model_dump().items() if not isinstance(v, dict)}
    used = ("data", "model", *recipe.stages, "select")
    tables = {name: recipe.table(name).model_dump() for name in used}
    lines = [f"{k} = {as_toml(v)}" for k, v in top.items()]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *(f"{k} = {as_toml(v)}" for k, v in table.items())]
    return "\n".join(lines) + "\n"


def _find(name: str) -> tuple[str, str]:
    if (path := Path(name)).suffix == ".toml" or path.is_file():
        try:
            return name, path.read_text("utf-8")
        except OSError as error:
            raise RecipeError(f"{name}: cannot be read ({error.strerror}).") from None
        except UnicodeDecodeError:
            raise RecipeError(f"{name}: not valid TOML: it is not text in UTF-8.") from None
    file = resources.files(__package__) / f"{name}.toml"
    if not file.is_file():
        raise RecipeError(f"there is no recipe {name!r}.{_suggest(name, names())}")
    return f"{name}.toml", file.read_text("utf-8")


def _change(table: dict[str, Any], change: str) -> None:
    key, equals, text = change.partition("=")
    if not equals:
        raise RecipeError(f"--set {change}: give it as key=value, as in prune.sparsity=1e-6.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # a bare word is a string
    *path, last = key.strip().split(".")
    for part in path:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise RecipeError(f"--set {change}: {part} is a setting, not a table of settings.")
    table[last] = value


def _explain(error: ValidationError, where: str) -> str:
    """One line for each thing that is wrong, with the nearest valid key."""
    lines = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            prefix = key.rpartition(".")[0]
            known = [f"{prefix}.{k}".lstrip(".") for k in _keys(prefix)]
            lines.append(f"{where}: unknown key {key}.{_suggest(key, known)}")
        else:
            lines.append(f"{where}: {key} = {problem['input']!r}: {problem['msg']}.")
    return "\n".join(lines)


def _keys(prefix: str) -> list[str]:
    section = recipe_class().model_fields.get(prefix)
    return list((section.annotation if section else recipe_class()).model_fields)  # type: ignore[union-attr]


def _suggest(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f" Did you mean {close[0]}?" if close else f" Known: {', '.join(known)}."


def as_toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, dict):
        return (
            "{ " + ", ".join(f"{k} = {as_toml(v)}" for k, v in value.items()) + " }"
            if value
            else "{}"
        )
    if isinstance(value, tuple | list):
        return "[" + ", ".join(as_toml(v) for v in value) + "]"
    return json.dumps(value, ensure_ascii=False)  # TOML has no surrogate pairs
