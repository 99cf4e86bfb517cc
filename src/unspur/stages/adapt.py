"""Adapt: a network whose images exchange spectrum, style and parts, as the start of pruning."""

from __future__ import annotations

from ..methods import ERM
from .context import Context
from .results import Results, TrainedWeights
from .stage import Stage, Work
from .trainings import make_training, training_source


def adapt(context: Context, results: Results) -> Work:
    """Train on uniform batches of mixed images, from the initial or from the ordinary network."""
    settings = context.recipe.adapt
    ordinary = settings.start == "trained" and "pretrain" in results
    start = results.weights("pretrain") if ordinary else context.initial
    method = context.place(ERM(context.network(start)))
    conflict = results.suspects().conflict if "mine" in results else None
    source = training_source(context, context.seed("adapt"), conflict=conflict)
    yield make_training(context, "adapt", method, settings, source=source, begins=not ordinary)
    return TrainedWeights(method.model.state_dict())


ADAPT = Stage("adapt", adapt, needs=("mine", "pretrain"))
