"""Fine-tune: retrain the kept weights, and select a step without bias labels."""

from __future__ import annotations

from typing import Any

from .. import masks
from ..methods import Debiased
from ..training.inputs import Watcher
from ..training.watchers import Iterates
from .context import Context
from .prune import head_in_key
from .results import Results, TrainedWeights
from .selection import describe_selection, right_when_unseen, selector
from .stage import Stage, Work
from .trainings import latest_weights, loss_options, make_training, oversample, whole_masks


def finetune(context: Context, results: Results) -> Work:
    """Retrain the kept weights with the debiasing loss."""
    settings = context.recipe.finetune
    start = context.initial if settings.start == "initial" else latest_weights(context, results)
    model = context.network(start)
    keep = results.masks or (whole_masks(context) if settings.drop else {})
    masks.apply(model, keep, drop=settings.drop, seed=context.seed("drop"))
    method = context.place(Debiased(model, head=context.head, **loss_options(settings)))
    source, order = oversample(context, "finetune", settings, results)
    best, iterates = selector(context, results), Iterates(settings.iterates)
    watchers: list[Watcher] = [best] if best else []
    watchers += [iterates] if settings.iterates else []
    yield make_training(
        context,
        "finetune",
        method,
        settings,
        source=source,
        order=order,
        watchers=watchers,
        begins=settings.start == "initial",
    )
    weights = best.weights if best else masks.plain_state(model)
    selection = {"selection": describe_selection(context, results, best, settings.steps)}
    return TrainedWeights(weights, iterates.state(), selection, right_when_unseen(best))


def check(context: Context) -> None:
    """Raise if weights are to be dropped at random, and one of them cannot be masked."""
    if context.recipe.finetune.drop and "prune" not in context.recipe.stages:
        whole_masks(context)


def prepare(context: Context) -> None:
    """Begin to compile the GPU kernel that drops weights at random."""
    if context.recipe.finetune.drop:
        masks.compile_ahead(context.device, "drop")


def _more_key(context: Context, mined: bool) -> dict[str, Any]:
    """Add the head and the settings of selection to the key."""
    select = context.recipe.select.model_dump(mode="json")
    return {**head_in_key(context, mined), "select": select}


FINETUNE = Stage(
    "finetune",
    finetune,
    needs=("mine", "pretrain", "adapt", "prune", "control"),
    more_key=_more_key,
    cost=1.3,
    check=check,
    prepare=prepare,
)
