"""Read the catalogue: the TOML files from which the built-in recipes are composed.

A file in `catalogue/` holds any number of entries, each a data set or a method. Every key is optional
unless it says otherwise.

    [data.cifar10c]
    seed = 11                          the seed of the launch line; required
    extends = "other"                  starts from the settings, values and notes of another data set
    set.model.name = "resnet18"        settings of a recipe, as tables and keys of settings.py
    value.rate = 1e-3                  values that settings refer to, as in lff.rate = "$rate"
    notes = ["..."]                    what a reader should know about recipes on this data
    ratios."1pct".value.up = 50.0      a table for each ratio, with `set`, `value` and `notes` of its own

    [method.lff]
    what = "LfF: two networks; ..."    one sentence; that of the last entry it extends if left out
    on = ["cmnist", "cifar10c/5pct"]   where the method has a recipe: data sets (at all their ratios), or
                                       patterns of data/ratio. An entry without `on` is a part that others
                                       extend; its notes are theirs too.
    extends = ["dcwp"]                 starts from the settings and the exceptions of other entries, in order
    set.plan = "lff"
    notes = ["..."]                    where the method departs from the original
    name = "cmnist/special"            in place of data/ratio-method

    [[method.lff.exceptions]]          what is different on some data
    on = ["cmnist"]
    set.lff.steps = 23_500
    notes = ["..."]

One entry with `on = ["cmnist", "cifar10c"]` is all a new method needs to have recipes at every ratio of both.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import RecipeError
from .messages import suggestion

Settings = dict[str, Any]
EntryT = TypeVar("EntryT", bound=BaseModel)


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    set: Settings = {}
    notes: tuple[str, ...] = ()


class RatioEntry(_Entry):
    """The changes for one ratio of a data set."""

    value: Settings = {}


class DataEntry(_Entry):
    """A data set: its settings, the values that methods refer to, its ratios."""

    file: str
    seed: int
    extends: str = ""
    value: Settings = {}
    ratios: dict[str, RatioEntry] = {}


class ExceptionEntry(_Entry):
    """The changes of a method for some data sets."""

    on: tuple[str, ...]


class RecipeMethod(_Entry):
    """A method: its settings, the data it has recipes for, its exceptions."""

    file: str
    what: str = ""
    on: tuple[str, ...] = ()
    name: str = ""
    extends: tuple[str, ...] = ()
    exceptions: tuple[ExceptionEntry, ...] = ()


class Combination(NamedTuple):
    """The parts of a recipe: a method, a data set and one of its ratios, if it has any."""

    method: str
    data: str
    ratio: str

    @property
    def base(self) -> str:
        return f"{self.data}/{self.ratio}" if self.ratio else self.data

    @property
    def name(self) -> str:
        return f"{self.base}{'-' if self.ratio else '/'}{self.method}"

    def matches(self, patterns: Iterable[str]) -> bool:
        """Return whether one of the patterns matches this data set or this ratio of it."""
        return any(self.data == p or fnmatch(self.base, p) for p in patterns)


@dataclass(frozen=True)
class Catalogue:
    """All entries, and the recipes made from them, by name."""

    data: dict[str, DataEntry]
    methods: dict[str, RecipeMethod]
    recipes: dict[str, Combination]


@cache
def catalogue() -> Catalogue:
    """Return the catalogue of the built-in recipes."""
    return read(resources.files(__package__) / "catalogue")


def read(folder: Traversable) -> Catalogue:
    """Read and check all files of a catalogue."""
    found: dict[str, dict[str, Any]] = {"data": {}, "method": {}}
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        if file.name.endswith(".toml"):
            _add(found, _tables(file), f"{folder.name}/{file.name}")
    data = {k: _checked(DataEntry, f"data.{k}", v) for k, v in found["data"].items()}
    methods = {k: _checked(RecipeMethod, f"method.{k}", v) for k, v in found["method"].items()}
    for name in data:
        _check_extended("data", name, data)
    for name in methods:
        _check_extended("method", name, methods)
    return Catalogue(data, methods, _recipes(data, methods))


def _tables(file: Traversable) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"catalogue/{file.name}: not valid TOML: {error}.") from None


def _add(found: dict[str, dict[str, Any]], tables: dict[str, Any], file: str) -> None:
    """Add the entries of a file to the entries of other files."""
    for kind, entries in tables.items():
        if kind not in found or not isinstance(entries, dict):
            raise RecipeError(
                f"{file}: unknown table {kind}. A catalogue has [data.NAME] and [method.NAME]."
            )
        for name, entry in entries.items():
            if not isinstance(entry, dict):
                raise RecipeError(f"{file}: {kind}.{name} = {entry!r}: it must be a table.")
            if name in found[kind]:
                other = found[kind][name]["file"]
                raise RecipeError(f"{file}: {kind}.{name} is in {other} too. Give it another name.")
            found[kind][name] = {**entry, "file": file}


def _checked(kind: type[EntryT], name: str, table: dict[str, Any]) -> EntryT:
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        problem = error.errors()[0]
    key = ".".join([name, *(str(part) for part in problem["loc"])])
    if problem["type"] != "extra_forbidden":
        raise RecipeError(f"{table['file']}: {key}: {problem['msg']}.")
    hint = suggestion(key.rpartition(".")[2], sorted(kind.model_fields.keys() - {"file"}))
    raise RecipeError(f"{table['file']}: unknown key {key}.{hint}")


def _check_extended(
    kind: str,
    name: str,
    entries: Mapping[str, DataEntry | RecipeMethod],
    path: tuple[str, ...] = (),
) -> None:
    """Raise RecipeError if an entry extends one that does not exist, or itself through others."""
    path = (*path, name)
    for other in _extended(entries[name]):
        where = f"{entries[name].file}: {kind}.{name}.extends = {other!r}"
        if other not in entries:
            raise RecipeError(f"{where}: there is no such entry.{suggestion(other, entries)}")
        if other in path:
            raise RecipeError(f"{where}: {other} would extend itself. Remove it here.")
        _check_extended(kind, other, entries, path)


def _extended(entry: DataEntry | RecipeMethod) -> tuple[str, ...]:
    """Return the entries that an entry extends, in order."""
    if isinstance(entry, RecipeMethod):
        return entry.extends
    return (entry.extends,) if entry.extends else ()


def _recipes(
    data: dict[str, DataEntry], methods: dict[str, RecipeMethod]
) -> dict[str, Combination]:
    """Return the recipes made from the entries, by name."""
    bases = [(name, ratio) for name, entry in data.items() for ratio in entry.ratios or [""]]
    made: dict[str, Combination] = {}
    for method, entry in methods.items():
        _check_patterns(method, entry, bases)
        for combination in (Combination(method, *base) for base in bases):
            if combination.matches(entry.on):
                name = entry.name or combination.name
                if name in made:
                    raise RecipeError(f"{entry.file}: method.{method}: {name} exists already.")
                made[name] = combination
    return dict(sorted(made.items()))


def _check_patterns(method: str, entry: RecipeMethod, bases: list[tuple[str, str]]) -> None:
    """Raise RecipeError if a pattern of an entry matches no data set."""
    for pattern in (*entry.on, *(p for each in entry.exceptions for p in each.on)):
        if not any(Combination(method, *base).matches([pattern]) for base in bases):
            hint = suggestion(pattern, ["/".join(base).rstrip("/") for base in bases])
            raise RecipeError(f"{entry.file}: method.{method}: no data {pattern!r}.{hint}")
