"""Load recipes by name or from a file; change, validate and write them.

A recipe has one table of settings for each stage (settings.py has every key and its default). Built-in
recipes are composed from the catalogue (composition.py). A file is TOML: a whole recipe, or a few settings
and `base = "cmnist/1pct-dcwp"`. `unspur run` takes a name or a path; `--set prune.sparsity=1e-6` changes one
setting.
"""

from __future__ import annotations

import fnmatch
import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..errors import RecipeError
from .catalogue_files import catalogue
from .changes import Changes, apply_changes
from .composition import Composition, Origin, compose, flat
from .messages import explain, suggestion
from .settings import Recipe, StartSettings, recipe_class


@dataclass(frozen=True)
class LoadedRecipe:
    """A validated recipe, and where its values come from."""

    recipe: Recipe
    source: Composition


def load(name: str, changes: Changes | None = None) -> Recipe:
    """Return a recipe by its built-in name (`cmnist/1pct-dcwp`) or path, with changes by dotted key."""
    return load_with_origins(name, changes).recipe


def load_with_origins(name: str, changes: Changes | None = None) -> LoadedRecipe:
    """Return a recipe and the origin of each value."""
    source = _from_file(name) if _is_file(name) else compose(name)
    values = changes or {}
    recipe = _validate(source.tables(), values, lambda key: _file_of(key, source, name))
    origins = _update_origins(source.origins, values, Origin("--set"))
    return LoadedRecipe(recipe, replace(source, origins=origins))


def parse(table: Mapping[str, Any], changes: Changes | None = None, *, where: str) -> Recipe:
    """Return a validated recipe from plain tables; errors name it as `where`."""
    return _validate(table, changes or {}, lambda key: where)


def change(recipe: Recipe, changes: Changes) -> Recipe:
    """Return the recipe with some values changed, as in {"prune.sparsity": 1e-6}."""
    return parse(recipe.model_dump(), changes, where=recipe.name)


def names() -> list[str]:
    """Return the names of the built-in recipes."""
    return list(catalogue().recipes)


def match(pattern: str) -> list[str]:
    """Return the built-in recipes that match a pattern (`cmnist/*-dcwp`); a plain name matches itself."""
    if not any(sign in pattern for sign in "*?["):
        return [pattern]
    if not (found := fnmatch.filter(names(), pattern)):
        hint = suggestion(pattern.replace("*", ""), names())
        raise RecipeError(f"no recipe matches {pattern!r}.{hint} `unspur recipes list` lists all.")
    return found


def tables_to_show(recipe: Recipe) -> dict[str, dict[str, Any]]:
    """Return the settings that a recipe reads: top-level settings under "", then the tables of its plan."""
    top = {key: v for key, v in recipe.model_dump().items() if not isinstance(v, dict)}
    start = () if recipe.start == StartSettings() else ("start",)
    used = ("data", "model", *start, *recipe.stages, "select")
    return {"": top, **{name: recipe.table(name).model_dump() for name in used}}


def dump(recipe: Recipe) -> str:
    """Return the recipe as TOML, with every table its plan reads."""
    lines: list[str] = []
    for name, table in tables_to_show(recipe).items():
        lines += ["", f"[{name}]"] if name else []
        lines += [f"{key} = {as_toml(value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def as_toml(value: Any) -> str:
    """Return a value in TOML syntax."""
    if isinstance(value, dict):
        pairs = ", ".join(f"{key} = {as_toml(each)}" for key, each in value.items())
        return f"{{ {pairs} }}" if value else "{}"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(as_toml(each) for each in value) + "]"
    return json.dumps(value, ensure_ascii=False)  # TOML does not allow escaped surrogate pairs


def _validate(
    table: Mapping[str, Any], changes: Mapping[str, Any], where: Callable[[str], str]
) -> Recipe:
    try:
        tables = json.loads(json.dumps(table, default=_plain))
        apply_changes(tables, changes)
        return recipe_class().model_validate_json(json.dumps(tables, default=_plain))
    except RecursionError:
        raise RecipeError(f"{where('')}: its tables are nested too deeply.") from None
    except ValidationError as error:
        raise RecipeError(explain(error, where)) from None


def _plain(value: Any) -> Any:
    """Return numbers and arrays of numpy as numbers and lists, dates of TOML as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _is_file(name: str) -> bool:
    return (path := Path(name)).suffix == ".toml" or path.is_file()


def _from_file(name: str) -> Composition:
    """Return the settings of a file, which override those of the recipe it is based on."""
    table = _read(name)
    table.setdefault("name", name.removesuffix(".toml"))
    base = _base(table.pop("base", None), name)
    own = flat(table)
    origins = base.origins | dict.fromkeys(own, Origin(name, name))
    return replace(base, settings=base.settings | own, origins=origins)


def _base(name: object, file: str) -> Composition:
    if name is None:
        return Composition({}, {})
    if name not in names():
        hint = suggestion(str(name), names())
        raise RecipeError(f"{file}: base = {name!r}: there is no such built-in recipe.{hint}")
    return compose(str(name))


def _read(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise RecipeError(f"{path}: not valid TOML: it is not text in UTF-8.") from None
    except (ValueError, RecursionError) as error:
        raise RecipeError(f"{path}: not valid TOML: {error}.") from None


def _file_of(key: str, source: Composition, name: str) -> str:
    """Return the file that a setting, or the first setting of a table, is written in, or else `name`."""
    prefix = ".".join(key.split(".")[:2])
    found = (o.file for k, o in source.origins.items() if f"{k}.".startswith(f"{prefix}."))
    return next(found, "") or name


def _update_origins(
    origins: dict[str, Origin], changes: Mapping[str, Any], origin: Origin
) -> dict[str, Origin]:
    """Return the origins after changes; a change of a whole table replaces all its settings."""
    found = dict(origins)
    for key, value in changes.items():
        if isinstance(value, Mapping) and "." not in key:
            found = {k: o for k, o in found.items() if not k.startswith(f"{key}.")}
            found |= {f"{key}.{inner}": origin for inner in value}
        else:
            found[".".join(key.split(".")[:2])] = origin
    return found
