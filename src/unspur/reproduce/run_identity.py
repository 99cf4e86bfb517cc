"""The identity of a run: its plan, the settings that the plan reads, and the seed.

Two runs with the same identity are interchangeable. The name of a recipe does not matter, and settings that a
recorded recipe lacks have their default values. The ordinary model of a run is also the result of ERM, so one
training serves both.
"""

from __future__ import annotations

import json
from typing import Any

from .. import recipes
from ..errors import RecipeError
from ..methods import plans
from ..recipes import Recipe
from .item import Run

# Settings without an effect on results, and precision, which changes a result less than the seed does.
IGNORED = {"name", "seed", "log_every", "watch_every", "checkpoint_every", "checkpoint_seconds"}
IGNORED |= {"precision", "compile"}
IGNORED_DATA = {"source", "workers"}


def sections_read(table: dict[str, Any]) -> dict[str, Any]:
    """Return a recipe without the sections that its plan does not read."""
    read = {"data", "model", "start", "select", *plans().get(table["plan"], table)}
    return {k: v for k, v in table.items() if not isinstance(v, dict) or k in read}


def identity(settings: Recipe) -> str:
    """Return everything that a result depends on, except the seed, as JSON text."""
    table = sections_read(settings.model_dump(mode="json"))
    table = {key: value for key, value in table.items() if key not in IGNORED}
    table["data"] = {key: v for key, v in table["data"].items() if key not in IGNORED_DATA}
    return json.dumps(table, sort_keys=True)


def identity_of(table: dict[str, Any]) -> str:
    """Return the identity of a recorded recipe; a recipe that is no longer valid only equals itself."""
    try:
        return identity(recipes.parse(table, where="a result"))
    except RecipeError:
        return json.dumps(table, sort_keys=True)


def erm_identity(table: dict[str, Any]) -> str | None:
    """Return the identity of the ERM run within a recorded recipe, or None if it has none."""
    if table["plan"] == "erm" or "pretrain" not in plans().get(table["plan"], ()):
        return None
    return identity_of({**table, "plan": "erm"})


def ordinary_run(run: Run) -> Run:
    """Return the run of ERM that a run contains: its ordinary model as the result."""
    selection = {"rule": "last", "reason": "the ordinary model is the result"}
    density = {"overall": 1.0, "reachable": 1.0, "macs": 1.0}
    result = {"debiased": run["ordinary"], "pruned": None, "mining": None, "unseen": None}
    shared = {name: value for name, value in run.items() if name not in ("extras", "intervals")}
    stages = {name: run["run"]["stages"][name] for name in (*plans()["erm"], "evaluate")}
    seconds = round(sum(stage["seconds"] for stage in stages.values()), 3)
    shared["run"] = {**run["run"], "stages": stages, "seconds": seconds}
    return {**shared, **result, "density": density, "selection": selection}
