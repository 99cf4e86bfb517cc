"""The methods for a user's own images, and the changes that each makes to the settings.

Every method has the steps, batch size, optimiser and rate of ordinary training on these images. JTT and DFR
use the same mined suspects as the other methods. JTT samples them as often as our preset does. These methods
do not mix images, unless settings such as `--set data.style=1.0` say so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import RecipeError
from ..methods import MethodEntry, all_methods
from .messages import suggestion
from .settings import Recipe

DEFAULT = "unspur"  # the preset of recipes/budget.py
UNMIXED = {"data.spectrum": 0.0, "data.style": 0.0, "data.mix": 0.0}  # other methods, as published
BUDGET = ("steps", "batch", "optimiser", "rate", "weight_decay", "schedule")


def own_methods() -> dict[str, MethodEntry]:
    """Return the methods that can be chosen for own data, by name."""
    return {
        name: entry
        for name, entry in all_methods().items()
        if name in CHAINS or entry.own_stage is not None
    }


def method_changes(name: str, recipe: Recipe) -> dict[str, Any]:
    """Return the changes that a method makes to the settings of our preset, by dotted key."""
    known = own_methods()
    if name not in known:
        other = " It is there for the paper's tables alone." * (name in all_methods())
        raise RecipeError(
            f"there is no method {name!r} for own data.{other}{suggestion(name, known)} `unspur methods` "
            "tells more of them."
        )
    if name == DEFAULT:
        return {}
    plan = {"plan": known[name].plan_name, **UNMIXED}
    if name in CHAINS:
        return plan | CHAINS[name](recipe)
    own = {f"{name}.{key}": getattr(recipe.pretrain, key) for key in BUDGET}
    return plan | own | MORE.get(name, _nothing)(recipe)


def _nothing(recipe: Recipe) -> dict[str, Any]:
    return {}


def _jtt(recipe: Recipe) -> dict[str, Any]:
    """Train from the initial weights on all images, suspects more often, as long as the ordinary model."""
    own = {f"finetune.{key}": getattr(recipe.pretrain, key) for key in BUDGET}
    every = max(1, recipe.pretrain.steps // 20)
    return own | {"finetune.align": 0.0, "finetune.drop": 0.0, "select.every": every}


def _disent(recipe: Recipe) -> dict[str, Any]:
    """Start swapping features after a fifth of the training, as the original does."""
    return {"disent.swap_start": recipe.pretrain.steps // 5}


# Methods whose plans consist of shared stages.
CHAINS: dict[str, Callable[[Recipe], dict[str, Any]]] = {
    DEFAULT: _nothing,
    "erm": _nothing,
    "dcwp-unpruned": _nothing,
    "jtt": _jtt,
    "dfr": _nothing,
    "dfr-mined": _nothing,
}
MORE: dict[str, Callable[[Recipe], dict[str, Any]]] = {"disent": _disent}
