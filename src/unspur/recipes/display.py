"""Show a recipe: a description, how to launch it, and all settings with the origin of each value."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable
from typing import Any

from .composition import Origin
from .loading import LoadedRecipe, as_toml, tables_to_show
from .published import METRIC_TITLES, METRICS, number
from .settings import Recipe

WIDTH, COLUMN = 108, 48  # characters of a line, and the column where comments begin
DEFAULT = Origin("default")


def show(name: str, loaded: LoadedRecipe, *, changes: Iterable[str] = (), ours: str = "") -> str:
    """Return a recipe as TOML with a description, and the origin of each value as a comment.

    `changes` are the texts of `--set`, for the launch line; `ours` is a sentence about our own results.
    """
    source = loaded.source
    run = shlex.join(["unspur", "run", name, *_options(source.seed, changes)])
    lines = [source.what, f"    {run}", _published(loaded.recipe), *source.notes, ours]
    return "\n".join([*_head(lines), "", *_body(loaded)]) + "\n"


def _options(seed: int | None, changes: Iterable[str]) -> list[str]:
    seeded = [] if seed is None else ["--seed", str(seed)]
    return [*seeded, *(part for change in changes for part in ("--set", change))]


def _head(lines: list[str]) -> list[str]:
    """Return lines as comments, wrapped to the width of the page."""
    wrapped = (textwrap.wrap(line, WIDTH - 2, subsequent_indent="  ") for line in lines if line)
    return [f"# {part}" for parts in wrapped for part in parts]


def _published(recipe: Recipe) -> str:
    """Return a sentence with the published number of a recipe and that of ERM on the same data."""
    tables = recipe.model_dump(mode="json")
    value, erm = number(tables), number(tables, "erm")
    if value is None:
        return "Published: no number for this method on this data."
    metric = METRIC_TITLES[METRICS.get(recipe.data.name, "unbiased")].partition(" (")[0].lower()
    baseline = (
        f" (ERM: {erm:.2f})" if recipe.plan != "erm" and "ablation" not in recipe.name else ""
    )
    return f"Published: {value:.2f}{baseline}, {metric} in per cent."


def _body(loaded: LoadedRecipe) -> list[str]:
    lines: list[str] = []
    for name, table in tables_to_show(loaded.recipe).items():
        lines += ["", f"[{name}]"] if name else []
        lines += [_line(name, key, value, loaded.source.origins) for key, value in table.items()]
    return lines


def _line(table: str, key: str, value: Any, origins: dict[str, Origin]) -> str:
    origin = origins.get(f"{table}.{key}".lstrip("."), DEFAULT)
    return f"{key} = {as_toml(value)}".ljust(COLUMN) + f"  # {origin.text}"
