"""Fine-tune: retrain the kept weights, and select a step without bias labels."""

from __future__ import annotations

from typing import Any

from .. import masks
from ..methods import Debiased
from ..training.cross_validated import CrossValidated
from ..training.inputs import Watcher
from ..training.watchers import Best, Iterates, Unseen
from .context import Context
from .prune import head_in_key
from .results import Results, TrainedWeights
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
    best, iterates = _selector(context, results), Iterates(settings.iterates)
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
    selection = {"selection": _describe_selection(context, results, best)}
    right = best.right_when_unseen() if isinstance(best, CrossValidated) else None
    return TrainedWeights(weights, iterates.state(), selection, right)


def _describe_selection(context: Context, results: Results, best: Best | None) -> dict[str, Any]:
    """Return which step's weights are the result, and why."""
    if best:
        return {"rule": "heldout", "step": best.step, "loss": best.loss, **best.sizes}
    select = context.recipe.select
    few = f"fewer than {select.minimum} suspects outside the training data"
    few = few if "mine" in results else "this plan looks for no suspects to choose by"
    reason = "asked for" if select.rule == "last" else few
    return {"rule": "last", "step": context.recipe.finetune.steps, "reason": reason}


def _selector(context: Context, results: Results) -> Best | None:
    """Return the watcher that selects a step, or None if selection is off or there are too few suspects."""
    select = context.recipe.select
    if select.rule == "last" or context.selection_samples is None or "mine" not in results:
        return None
    split, among = context.selection_samples
    conflict = results.suspects(split).conflict[among]
    if int(conflict.sum()) < select.minimum or bool(conflict.all()):
        return None
    kind = CrossValidated if context.miner is not None else Best
    return kind(Unseen(context.resident(split), among), conflict, every=select.every)


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
)
