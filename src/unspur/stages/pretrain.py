"""Pretrain: train the ordinary model."""

from __future__ import annotations

from ..methods import ERM
from ..recipes import Recipe
from .context import Context
from .results import OrdinaryWeights, Results
from .stage import Stage, Work
from .trainings import make_training, training_source


def pretrain(context: Context, results: Results) -> Work:
    """Train the ordinary model on uniform batches."""
    head = context.head if context.recipe.start.head_first else ""
    method = context.place(ERM(context.network(context.initial), head=head))
    source = training_source(context, context.seed("pretrain"), mixes=_mixes(context.recipe))
    settings = context.recipe.pretrain
    yield make_training(context, "pretrain", method, settings, source=source, begins=True)
    return OrdinaryWeights(method.model.state_dict())


def _mixes(recipe: Recipe) -> bool:
    """Return whether images are mixed: not if the plan has an `adapt` stage, which mixes them."""
    return "adapt" not in recipe.stages


PRETRAIN = Stage("pretrain", pretrain, mixes=_mixes)
