"""Pretrain: the ordinary, biased model."""

from __future__ import annotations

from ..methods import ERM
from .context import Context
from .results import OrdinaryWeights, Results
from .stage import Stage, Work
from .trainings import make_training


def pretrain(context: Context, results: Results) -> Work:
    """Train the ordinary model on uniform batches."""
    head = context.head if context.recipe.start.head_first else ""
    method = context.place(ERM(context.network(context.initial), head=head))
    yield make_training(context, "pretrain", method, context.recipe.pretrain, begins=True)
    return OrdinaryWeights(method.model.state_dict())


PRETRAIN = Stage("pretrain", pretrain)
