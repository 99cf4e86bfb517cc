"""Adapt: train a network on mixed images (spectrum, style, parts), which pruning starts from."""

from __future__ import annotations

from ..methods import ERM
from .context import Context
from .results import Results, TrainedWeights
from .stage import Stage, Work
from .trainings import make_training, training_source


def adapt(context: Context, results: Results) -> Work:
    """Train on uniform batches of mixed images, starting from the initial weights or the ordinary model."""
    settings = context.recipe.adapt
    ordinary = settings.start == "trained" and "pretrain" in results
    start = results.weights("pretrain") if ordinary else context.initial
    method = context.place(ERM(context.network(start)))
    conflict = results.suspects().conflict if "mine" in results else None
    source = training_source(context, context.seed("adapt"), conflict=conflict)
    yield make_training(context, "adapt", method, settings, source=source, begins=not ordinary)
    return TrainedWeights(method.model.state_dict())


ADAPT = Stage("adapt", adapt, needs=("mine", "pretrain"))
