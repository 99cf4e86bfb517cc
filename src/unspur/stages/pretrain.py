"""Pretrain: train the ordinary model."""

from __future__ import annotations

from typing import Any

from ..methods import ERM
from ..recipes import Recipe
from .context import Context
from .results import OrdinaryWeights, Results
from .stage import Stage, Work
from .trainings import make_training, training_source


def pretrain(context: Context, results: Results) -> Work:
    """Train the ordinary model on uniform batches."""
    method = context.place(ERM(context.network(context.initial), head=_first(context)))
    source = training_source(context, context.seed("pretrain"), mixes=_mixes(context.recipe))
    settings = context.recipe.pretrain
    yield make_training(context, "pretrain", method, settings, source=source, begins=True)
    return OrdinaryWeights(method.model.state_dict())


def _first(context: Context) -> str:
    """Return the head if it is trained alone at first, otherwise ""."""
    return context.head if context.recipe.start.head_first else ""


def _more_key(context: Context, mined: bool) -> dict[str, Any]:
    """Add a head that the user names, if it is trained alone at first; others follow from the network."""
    return {"head": _first(context)} if context.recipe.model.head and _first(context) else {}


def _mixes(recipe: Recipe) -> bool:
    """Return whether images are mixed: not if the plan has an `adapt` stage, which mixes them."""
    return "adapt" not in recipe.stages


PRETRAIN = Stage("pretrain", pretrain, more_key=_more_key, mixes=_mixes)
