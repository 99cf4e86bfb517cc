"""The keys of a run: for every stage, what its result depends on, and where it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..parallel import from_first
from ..store import Store
from .all_stages import stage_records
from .context import Context
from .stage import Stage


@dataclass(frozen=True)
class StageKey:
    """A stage of a run, what its result depends on, and where it is stored."""

    stage: Stage
    ingredients: Mapping[str, Any]
    path: Path
    store: Store

    @property
    def stored(self) -> bool:
        return from_first(lambda: self.store.has(self.path))


def plan_keys(context: Context) -> dict[str, StageKey]:
    """Return the key of every stage of the recipe's plan, in order."""
    keys: dict[str, StageKey] = {}
    for name in context.recipe.stages:
        stage = stage_records()[name]
        parents = {before: key.path.name for before, key in keys.items()}
        ingredients = stage.ingredients(context, parents)
        keys[name] = StageKey(stage, ingredients, context.store.path(ingredients), context.store)
    return keys
