"""The format of the records: one line for each run, one line for each recipe.

The line of a run refers to its recipe by a hash of the settings, so a recipe is stored once. Both leave out
repetitions and what no page reads: the density of every layer, the sentence about the suspects, and the
versions of a stage if they are those of the run.
"""

from __future__ import annotations

import json
from typing import Any

from ..store.hashing import digest
from .item import RecordedRun, Run
from .run_identity import sections_read

Line = dict[str, Any]

OF_THE_RUN = ("seed", "precision")  # settings in the line of a run, not in that of its recipe


def recipe_table(table: dict[str, Any]) -> dict[str, Any]:
    """Return the stored part of a recipe: the settings that its plan reads, without seed and precision."""
    return {k: v for k, v in sections_read(table).items() if k not in OF_THE_RUN}


def recipe_hash(table: dict[str, Any]) -> str:
    """Return the hash that identifies a stored recipe."""
    return digest(json.dumps(table, sort_keys=True))[:12]


def to_line(item: str, date: str, recipe: str, precision: str, run: Run) -> Line:
    """Return a run as a line of the records."""
    about = {"item": item, "date": date, "recipe": recipe, "seed": run["seed"]}
    scores = {name: value for name, value in run.items() if name not in ("seed", "run")}
    scores["density"] = _without(run["density"], "layers")
    if run.get("mining"):
        scores["mining"] = _without(run["mining"], "text")
    return {**about, "precision": precision, **scores, "run": _execution(run["run"])}


def recorded(line: Line, name: str) -> RecordedRun:
    """Return the run of a line; `name` is that of its recipe."""
    apart = ("item", "date", "recipe", "precision", "run")
    run = {key: value for key, value in line.items() if key not in apart}
    run["run"] = {"recipe": name, "seed": line["seed"], **line["run"]}
    return RecordedRun(run, line["date"], line["item"], line["precision"])


def _execution(about: dict[str, Any]) -> dict[str, Any]:
    """Return data, device, stages, time and versions of a run, without repetitions."""
    stages = {
        name: _without(stage, "with") if stage.get("with") == about["with"] else stage
        for name, stage in about["stages"].items()
    }
    return {**_without(about, "recipe", "seed"), "stages": stages}


def _without(table: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in names}
