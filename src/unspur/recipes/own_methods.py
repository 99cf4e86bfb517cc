"""Methods for a user's own data: which can be chosen, and which settings each changes.

Every method gets the budget of ordinary training on these images: steps, batch size, optimiser and learning
rate. JTT and DFR use the same suspects as the other methods, so mining runs only once. JTT samples suspects
as often as our preset does. None of these methods mixes images, unless settings such as `data.style=1.0` ask
for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import RecipeError
from ..methods import MethodEntry, all_methods
from .messages import suggestion
from .settings import Recipe

DEFAULT = "unspur"  # the preset of recipes/budget.py
WITHOUT_MIXING = {"data.spectrum": 0.0, "data.style": 0.0, "data.mix": 0.0}  # as published
BUDGET = ("steps", "batch", "optimiser", "rate", "weight_decay", "schedule")


def own_methods() -> dict[str, MethodEntry]:
    """Return the methods that can be chosen for own data, by name."""
    return {
        name: entry
        for name, entry in all_methods().items()
        if name in OF_SHARED_STAGES or entry.own_stage is not None
    }


def method_changes(name: str, recipe: Recipe) -> dict[str, Any]:
    """Return the settings that a method changes in our preset, by dotted key."""
    known = own_methods()
    if name not in known:
        reason = " It is only for the tables of the paper." * (name in all_methods())
        raise RecipeError(
            f"there is no method {name!r} for own data.{reason}{suggestion(name, known)} `unspur methods` "
            "describes them."
        )
    if name == DEFAULT:
        return {}
    plan = {"plan": known[name].plan_for_users, **WITHOUT_MIXING}
    if name in OF_SHARED_STAGES:
        return plan | OF_SHARED_STAGES[name](recipe)
    own = {f"{name}.{key}": getattr(recipe.pretrain, key) for key in BUDGET}
    return plan | own | FURTHER_CHANGES.get(name, _no_changes)(recipe)


def _no_changes(recipe: Recipe) -> dict[str, Any]:
    return {}


def _jtt(recipe: Recipe) -> dict[str, Any]:
    """Return the changes of JTT: train a new network on all images as long as the ordinary model.

    Suspects are sampled more often. The ordinary model is trained for comparison, and is not its start.
    """
    own = {f"finetune.{key}": getattr(recipe.pretrain, key) for key in BUDGET}
    every = max(1, recipe.pretrain.steps // 20)
    plain = {"finetune.start": "initial", "finetune.align": 0.0, "finetune.drop": 0.0}
    return own | plain | {"select.every": every}


def _disent(recipe: Recipe) -> dict[str, Any]:
    """Return the changes of DisEnt: swap features after a fifth of the steps, as the original does."""
    return {"disent.swap_start": recipe.pretrain.steps // 5}


def _rebias(recipe: Recipe) -> dict[str, Any]:
    """Return the changes of ReBias: a biased network with a small receptive field, for images of any size.

    The network of CMNIST works at full resolution, which is slow on larger images.
    """
    small = recipe.model.name == "convnet"
    return {} if small else {"rebias.network": {"name": "bagnet18"}}


# Methods whose plan consists of stages that several methods share.
OF_SHARED_STAGES: dict[str, Callable[[Recipe], dict[str, Any]]] = {
    DEFAULT: _no_changes,
    "erm": _no_changes,
    "dcwp-unpruned": _no_changes,
    "jtt": _jtt,
    "dfr": _no_changes,
    "dfr-mined": _no_changes,
}
FURTHER_CHANGES: dict[str, Callable[[Recipe], dict[str, Any]]] = {
    "disent": _disent,
    "rebias": _rebias,
}
