"""Compose a built-in recipe from the layers of the catalogue.

    defaults ← data set ← ratio ← method ← exceptions of the method on this data

Later layers win. A method that extends others starts from their settings and exceptions. A ratio is a
property of the data set, so it comes before the method; a method that needs another value at a ratio has an
exception. Tables that the plan of the recipe does not read keep their defaults. Every value remembers its
origin. The format of the files is in catalogue_files.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import RecipeError
from ..methods import plans
from .catalogue_files import Catalogue, Combination, DataEntry, RecipeMethod, Settings, catalogue
from .lengths import lengths
from .messages import suggestion
from .settings import recipe_class

Flat = dict[str, Any]


class Origin(NamedTuple):
    """The origin of a value as text, and the file that contains it."""

    text: str
    file: str = ""


class Layer(NamedTuple):
    """Some settings, their origin, and notes about them."""

    origin: Origin
    settings: Settings
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Composition:
    """The settings of a recipe that are not defaults, by dotted key, with origins and a description."""

    settings: Flat
    origins: dict[str, Origin]
    what: str = ""
    notes: tuple[str, ...] = ()
    seed: int | None = None

    def tables(self) -> Settings:
        """Return the settings as nested tables."""
        return nested(self.settings)


def compose(name: str, entries: Catalogue | None = None) -> Composition:
    """Compose a recipe of the catalogue by name."""
    known = entries or catalogue()
    if name not in known.recipes:
        raise RecipeError(f"there is no recipe {name!r}.{suggestion(name, known.recipes)}")
    combination = known.recipes[name]
    layers = [
        _name_layer(name),
        *_data_layers(combination, known),
        *_method_layers(combination, known),
    ]
    settings, origins = _merge(layers, _values(combination, known), combination)
    read = _read_keys(settings)
    return Composition(
        {key: settings[key] for key in read},
        {key: origins[key] for key in read},
        what=_what(combination.method, known),
        notes=tuple(dict.fromkeys(note for layer in layers[::-1] for note in layer.notes)),
        seed=known.data[combination.data].seed,
    )


def method_tables(name: str, values: Settings) -> Settings:
    """Return the settings of a method of the catalogue as tables, with `values` for its references."""
    known = catalogue()
    layers = [
        Layer(Origin(f"method {each}", entry.file), entry.set)
        for each, entry in _method_chain(name, known)
    ]
    settings, _ = _merge(layers, values, Combination(name, "own images", ""))
    return nested(settings)


def flat(tables: Settings) -> Flat:
    """Return settings by dotted key such as `prune.rate`; deeper tables are values."""
    found: Flat = {}
    for key, value in tables.items():
        found |= (
            {f"{key}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {key: value}
        )
    return found


def nested(settings: Flat) -> Settings:
    """Return settings by dotted key as tables."""
    tables: Settings = {}
    for key, value in settings.items():
        table, _, last = key.rpartition(".")
        (tables.setdefault(table, {}) if table else tables)[last] = value
    return tables


def _name_layer(name: str) -> Layer:
    return Layer(Origin("name of the recipe"), {"name": name})


def _data_layers(combination: Combination, known: Catalogue) -> Iterator[Layer]:
    """Return the layers of the data set and the ratio, and a name for both."""
    names = {"data": {"name": combination.data, "ratio": combination.ratio}}
    for name, entry in _data_chain(combination.data, known):
        extended = "" if name == combination.data else f", which extends {name}"
        origin = Origin(f"data set {combination.data}{extended}", entry.file)
        yield Layer(origin, entry.set, entry.notes)
    entry = known.data[combination.data]
    yield Layer(Origin(f"data set {combination.data}", entry.file), names)
    if combination.ratio:
        ratio = entry.ratios[combination.ratio]
        origin = Origin(f"ratio {combination.ratio}", entry.file)
        yield Layer(origin, {"data": {"ratio": combination.ratio}})
        yield Layer(origin, ratio.set, ratio.notes)


def _data_chain(name: str, known: Catalogue) -> list[tuple[str, DataEntry]]:
    """Return a data set and those it extends, the most general first."""
    entry = known.data[name]
    above = _data_chain(entry.extends, known) if entry.extends else []
    return [*above, (name, entry)]


def _values(combination: Combination, known: Catalogue) -> Settings:
    """Return the values that settings refer to by "$name"."""
    values: Settings = {}
    for _, entry in _data_chain(combination.data, known):
        values |= entry.value
    ratio = known.data[combination.data].ratios.get(combination.ratio)
    values |= ratio.value if ratio else {}
    return values | (lengths(values["images"]) if "images" in values else {})


def _method_layers(combination: Combination, known: Catalogue) -> Iterator[Layer]:
    """Return the layers of the method and of all it extends, each followed by its exceptions on this data."""
    for name, entry in _method_chain(combination.method, known):
        noted = name == combination.method or not entry.on  # notes for other recipes are left out
        kind = "method" if entry.on else "part"
        notes = entry.notes if noted else ()
        yield Layer(Origin(f"{kind} {name}", entry.file), entry.set, notes)
        for each in entry.exceptions:
            for pattern in [p for p in each.on if combination.matches([p])][:1]:
                origin = Origin(f"exception of {name} on {pattern}", entry.file)
                yield Layer(origin, each.set, each.notes if noted else ())


def _method_chain(name: str, known: Catalogue) -> list[tuple[str, RecipeMethod]]:
    """Return a method and all it extends, each once, in the order in which they apply."""
    above = [each for other in known.methods[name].extends for each in _method_chain(other, known)]
    return [*dict(above).items(), (name, known.methods[name])]


def _what(method: str, known: Catalogue) -> str:
    """Return the description of a method: its own, or that of the last entry it extends."""
    entry = known.methods[method]
    return entry.what or (_what(entry.extends[-1], known) if entry.extends else "")


def _merge(
    layers: list[Layer], values: Settings, combination: Combination
) -> tuple[Flat, dict[str, Origin]]:
    settings: Flat = {}
    origins: dict[str, Origin] = {}
    for layer in layers:
        for key, value in flat(layer.settings).items():
            settings[key], origins[key] = _resolve(key, value, layer.origin, values, combination)
    return settings, origins


def _resolve(
    key: str, value: Any, origin: Origin, values: Settings, combination: Combination
) -> tuple[Any, Origin]:
    """Return a setting with its reference replaced by the value."""
    if not (isinstance(value, str) and value.startswith("$")):
        return value, origin
    if value[1:] not in values:
        raise RecipeError(
            f"{origin.file}: {key} = {value!r} ({origin.text}): {combination.base} has no such value."
            + suggestion(value[1:], values)
        )
    return values[value[1:]], Origin(f"{origin.text}: {value} of {combination.base}", origin.file)


def _read_keys(settings: Flat) -> list[str]:
    """Return the keys that the plan reads, and unknown keys, which the check of the recipe reports."""
    plan = settings.get("plan", recipe_class().model_fields["plan"].default)
    unread = {stage for stages in plans().values() for stage in stages} - set(plans().get(plan, ()))
    return [key for key in settings if key.partition(".")[0] not in unread]
