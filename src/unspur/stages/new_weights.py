"""Warn if a model is passed again with other initial weights, so that no stored result can be used."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..store import FACTS
from .driver import Run


def warn_of_new_weights(run: Run) -> None:
    """Warn if the model was trained with the same data and settings, but from other initial weights."""
    key = next((each for each in run.keys.values() if "initial" in each.ingredients), None)
    if key is None or key.stored:
        return
    stored = run.context.store.root.glob(f"{key.stage.name}-*/{FACTS}")
    if any(_differ_in_weights(key.ingredients, _ingredients(path)) for path in stored):
        warnings.warn(
            "the model you gave has new weights; everything is trained again. It was trained on these images "
            "before, from other initial weights. If they are random, call torch.manual_seed(0) before you "
            "create the model.",
            stacklevel=4,
        )


def _differ_in_weights(now: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Return whether two stages depend on the same inputs except for the initial weights."""
    now = json.loads(json.dumps(now))
    return {**now, "initial": ""} == {**before, "initial": ""} and now != before


def _ingredients(path: Path) -> dict[str, Any]:
    """Return what a stored stage depends on, or {} if that cannot be read."""
    try:
        ingredients = json.loads(path.read_bytes())["ingredients"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return ingredients if isinstance(ingredients, dict) else {}
