"""Prune: find the weights to keep, by learned masks or by a score."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from .. import masks
from ..masks import multiply_adds, ranking
from ..masks.reachable import reachable
from ..methods import MaskSearch, grasp
from ..training.inputs import Training
from ..training.numerics import deterministic, isolated_random_stream, matmul_precision
from . import channel_pruning
from .batch_norm import refresh_batch_norm
from .context import Context
from .results import PrunedWeights, Results
from .stage import Stage, Work
from .trainings import latest_weights, loss_options, make_training, oversample, whole_masks


def prune(context: Context, results: Results) -> Work:
    """Learn masks, or prune by a score; then re-estimate the batch-norm statistics."""
    settings = context.recipe.prune
    model = context.network(latest_weights(context, results))
    if settings.how != "learned":
        masks.apply(context.place(model), _masks_by_score(context, model))
        return finish_masks(context, results, model)
    yield _mask_search(context, results, model)
    logits = {name: p.detach().clone() for name, p in masks.logits(model).items()}
    if settings.unit == "channel" and settings.cut == "share":
        channel_pruning.fit(context, model)
    return replace(finish_masks(context, results, model), logits=logits)


def _mask_search(context: Context, results: Results, model: nn.Module) -> Training:
    """Return the training of mask logits on a frozen network."""
    settings = context.recipe.prune
    masks.attach(
        model,
        init=settings.init,
        noise=settings.noise,
        keep_zero=settings.keep_zero,
        seed=context.seed("masks"),
        unit=settings.unit,
        weigh=settings.weigh,
        example=context.probe,
    )
    pressure: dict[str, Any] = {"sparsity": settings.sparsity, "penalty": settings.penalty}
    search = MaskSearch(model, head=context.head, **pressure, **loss_options(settings))
    source, order = oversample(context, "prune", settings, results)
    return make_training(
        context, "prune", context.place(search), settings, source=source, order=order
    )


def _masks_by_score(context: Context, model: nn.Module) -> dict[str, Tensor]:
    """Return masks by a score that needs no training."""
    settings, names = context.recipe.prune, whole_masks(context).keys()
    if settings.unit == "channel":
        return channel_pruning.cut(context, model)
    weights = {name: p.detach() for name, p in model.named_parameters() if name in names}
    score: dict[str, Callable[[], dict[str, Tensor]]] = {
        "magnitude": lambda: ranking.magnitude(weights),
        "random": lambda: ranking.chance(weights, seed=context.seed("masks")),
        "grasp": lambda: _gradient_flow(context, list(weights)),
    }
    return ranking.keep_share(score[settings.how](), settings.keep)


def _gradient_flow(context: Context, names: Sequence[str]) -> dict[str, Tensor]:
    """Return GraSP's scores at the initial weights, negated so that the highest are kept."""
    model, targets = context.place(context.network(context.initial)), context.train.targets.cpu()
    seed = context.seed("grasp")
    index = grasp.balanced_subset(targets, ~context.kept_out, each=10, seed=seed)
    among = torch.zeros(len(targets), dtype=torch.bool)
    among[index] = True
    x = torch.cat(list(context.train.plain(among=among)))[torch.argsort(torch.argsort(index))]
    with (
        matmul_precision(context.recipe.precision),
        deterministic(context.recipe.deterministic),
        isolated_random_stream(context.device),
    ):
        torch.manual_seed(seed)  # for layers that draw from torch's random stream, such as dropout
        scores = grasp.scores(model.train(), names, x, targets[index].to(x.device))
    return {name: -score for name, score in scores.items()}


def finish_masks(context: Context, results: Results, model: nn.Module) -> PrunedWeights:
    """Fix the masks of a model, re-estimate batch-norm statistics, and bake the masks into the weights."""
    settings = context.recipe.prune
    keep = masks.harden(model)
    source, order = oversample(context, "prune", settings, results)
    with matmul_precision(context.recipe.precision), deterministic(context.recipe.deterministic):
        refresh_batch_norm(
            model, source, order, first=settings.steps, batches=settings.batch_norm_batches
        )
    masks.bake(model)
    weights = {name: t for name, t in keep.items() if t.dim() > 1}  # no biases and scales
    return PrunedWeights(keep, model.state_dict(), _density(context, weights))


def _density(context: Context, keep: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the share kept: of all weights, of reachable weights, by layer, and of multiply–adds."""
    reachable_weights = reachable(context.network(), context.probe[:1], list(keep))
    times = multiply_adds.uses(context.network(), context.probe, list(keep))
    return {
        "overall": masks.density(keep),
        "reachable": masks.density(keep, reachable_weights),
        "layers": {name: masks.density({name: t}) for name, t in keep.items()},
        "macs": multiply_adds.remaining_share(keep, times),
    }


def check(context: Context) -> None:
    """Raise if the network has no weights that can be masked."""
    channel_pruning.check(context)
    model = context.network(context.initial)
    masks.attach(model, unit=context.recipe.prune.unit, example=context.probe)


def prepare(context: Context) -> None:
    """Begin to compile the GPU kernels of learned masks."""
    settings = context.recipe.prune
    if settings.how == "learned" and settings.unit == "weight":
        masks.compile_ahead(context.device, settings.noise)


def head_in_key(context: Context, mined: bool) -> dict[str, Any]:
    """Add the head to the key."""
    return {"head": context.head}


def _more_key(context: Context, mined: bool) -> dict[str, Any]:
    """Add the head to the key, and how multiply–adds are counted in attention if there is any."""
    attention = any(name.endswith("in_proj_weight") for name in context.initial)
    return {**head_in_key(context, mined), **({"attention": 2} if attention else {})}


PRUNE = Stage(
    "prune",
    prune,
    needs=("mine", "pretrain", "adapt"),
    more_key=_more_key,
    cost=1.3,
    copies=3,
    check=check,
    prepare=prepare,
)
