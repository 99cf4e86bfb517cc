"""Store the finished runs of a bench next to its table, so that parts and restarts can be combined.

    results.json            the table
    results.runs/           a file for each finished run, named after its recipe, seed and settings

A file is used only if the keys of its artifacts are those that the run would have now. Other data or other
versions of stages give other keys.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from .. import stages
from ..errors import StoreError
from ..recipes import Recipe
from ..stages.evaluate import score_ingredients
from ..store import key_of, parse_json
from ..store.addresses import join_address, replace_suffix
from ..store.anywhere import read_anywhere, write_anywhere

FOLDER = ".runs"


class RunRecords:
    """The finished runs next to the table of a bench."""

    def __init__(self, out: Path | str):
        self.folder = replace_suffix(out, FOLDER)

    def add(self, recipe: Recipe, run: dict[str, Any]) -> None:
        """Write a finished run."""
        write_anywhere(self._place(recipe), (json.dumps(run, indent=1) + "\n").encode())

    def read(self, recipe: Recipe) -> dict[str, Any] | None:
        """Return the record of a run, or None if there is none or it cannot be read."""
        place = self._place(recipe)
        if (content := read_anywhere(place)) is None:
            return None
        try:
            found = parse_json(content, str(place))
        except StoreError:  # a damaged record is computed again
            return None
        return found if isinstance(found, dict) else None

    def _place(self, recipe: Recipe) -> Path | str:
        settings = {"stage": "run", **recipe.model_dump(mode="json")}
        name = re.sub(r"[^\w.-]+", "-", recipe.name)
        return join_address(self.folder, f"{name}-{recipe.seed}-{key_of(settings)}.json")


def is_current(record: dict[str, Any], run: stages.Run) -> bool:
    """Return whether the keys of a record's artifacts are those that the run would have now."""
    try:
        names = {name: times["artifact"] for name, times in record["run"]["stages"].items()}
    except (LookupError, TypeError, AttributeError):
        return False
    scores = names.pop("evaluate", None)
    expected = {name: key.path.name for name, key in run.keys.items()}
    ingredients = score_ingredients(run.context, names)
    same_stages = all(expected.get(name) == found for name, found in names.items())
    return same_stages and scores == run.context.store.path(ingredients).name
