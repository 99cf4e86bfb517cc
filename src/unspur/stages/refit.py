"""Refit: fit a new last layer of the ordinary model to balanced groups (DFR)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ModelError, RecipeError
from ..methods import dfr
from ..models.head import penultimate
from ..store.hashing import digest
from ..training.numerics import deterministic, matmul_precision
from .context import Context
from .prune import head_in_key
from .results import Results, TrainedWeights
from .stage import Stage, Work


def refit(context: Context, results: Results) -> Work:
    """Fit a new head to balanced groups, on the features of the ordinary model."""
    settings = context.recipe.refit
    among, conflict = _groups(context, results)
    source = context.resident(settings.on)
    model = context.place(context.network(results.weights("pretrain")))
    with matmul_precision(context.recipe.precision), deterministic(context.recipe.deterministic):
        features = penultimate(model, context.head, source.plain(among=among))
    head, facts = dfr.refit(
        features,
        source.targets.cpu()[among],
        conflict[among],
        classes=len(context.splits.classes),
        strengths=settings.strengths,
        subsets=settings.subsets,
        seed=context.seed("refit"),
        # The fit uses float64, which some other devices do not support.
        device=context.device if context.device.type == "cuda" else None,
    )
    yield from ()  # nothing to train
    selection = {"rule": "last", "reason": "the head was refitted"}
    weights = {**model.state_dict(), **_layer(context, head)}
    return TrainedWeights(weights, notes={"refit": facts, "selection": selection})


def _groups(context: Context, results: Results) -> tuple[Tensor, Tensor]:
    """Return which samples of the split to fit to, and which samples of the split are conflicting."""
    split = context.recipe.refit.on
    if "mine" in results:
        conflict = results.suspects(split).conflict
    else:
        context.bias(split)
        conflict = context.splits.conflicting(split)  # type: ignore[assignment]
    return ~context.kept_out if split == "train" else torch.ones_like(conflict), conflict


def _layer(context: Context, head: dfr.Head) -> dict[str, Tensor]:
    """Return the weights of the new head, by their names in the network."""
    return {
        f"{context.head}.weight": head.weight.float(),
        f"{context.head}.bias": head.bias.float(),
    }


def check(context: Context) -> None:
    """Raise if the head cannot be refitted, or the split is missing."""
    if context.recipe.refit.on not in context.splits.parts():
        raise RecipeError(
            'refit.on = "valid" needs a validation split; there is none. Use "train".'
        )
    layer, classes = context.network().get_submodule(context.head), len(context.splits.classes)
    if not isinstance(layer, nn.Linear) or layer.out_features != classes:
        raise ModelError(
            f"the head {context.head} is {layer}, but refitting needs an nn.Linear with {classes} outputs. "
            "Name another layer: model.head."
        )
    if f"{context.head}.bias" not in context.initial:
        raise ModelError(
            f"the head {context.head} has no bias parameter, but refitting needs one. Give the layer a bias."
        )


def _more_key(context: Context, mined: bool) -> dict[str, Any]:
    """Add the head to the key, and without mining also the true groups."""
    more = head_in_key(context, mined)
    if not mined:
        split = context.recipe.refit.on
        context.bias(split)  # raises if there are no bias labels
        conflicting = context.splits.conflicting(split)
        more["conflicting"] = None if conflicting is None else digest("", conflicting)
    return more


REFIT = Stage(
    "refit", refit, version=2, needs=("mine", "pretrain"), more_key=_more_key, check=check
)
