"""Control: random or magnitude masks that keep as many weights as the learned masks."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from .. import masks
from ..masks import ranking
from ..training.prediction import under
from .context import Context
from .prune import finish_masks
from .results import Results
from .stage import Stage, Work


def control(context: Context, results: Results) -> Work:
    """Build masks that keep as many weights as the learned masks, in every layer or overall."""
    learned = under(results["prune"].tensors, "keep.")
    model = context.network(results.weights("pretrain"))
    weights = {name: p.detach() for name, p in model.named_parameters() if name in learned}
    masks.apply(context.place(model), _masks(context, weights, learned))
    yield from ()  # nothing to train
    return finish_masks(context, results, model)


def _masks(
    context: Context, weights: dict[str, Tensor], learned: dict[str, Tensor]
) -> dict[str, Tensor]:
    settings = context.recipe.control
    score: dict[str, Callable[[], dict[str, Tensor]]] = {
        "random": lambda: ranking.chance(weights, seed=context.seed("control")),
        "magnitude": lambda: ranking.magnitude(weights),
    }
    scores = score[settings.how]()
    if settings.spread == "layer":
        return ranking.keep_counts(scores, learned)
    return ranking.keep_share(scores, masks.density(learned))


CONTROL = Stage("control", control, needs=("mine", "pretrain", "prune"), copies=2)
