"""Selection: which step's weights are the result of a training, found without bias labels."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..training.cross_validated import CrossValidated
from ..training.watchers import Best, Unseen
from .context import Context
from .results import Results


def selector(context: Context, results: Results) -> Best | None:
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


def right_when_unseen(best: Best | None) -> Tensor | None:
    """Return which samples used for selection are predicted correctly by a step selected without them.

    None if no gain will be measured on these samples.
    """
    return best.right_when_unseen() if isinstance(best, CrossValidated) else None


def describe_selection(
    context: Context, results: Results, best: Best | None, steps: int
) -> dict[str, Any]:
    """Return which step's weights are the result, and why; `steps` is the number of all steps."""
    if best:
        return {"rule": "heldout", "step": best.step, "loss": best.loss, **best.sizes}
    select = context.recipe.select
    few = f"fewer than {select.minimum} suspects outside the training data"
    few = few if "mine" in results else "this plan looks for no suspects to choose by"
    reason = "asked for" if select.rule == "last" else few
    return {"rule": "last", "step": steps, "reason": reason}
