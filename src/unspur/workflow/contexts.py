"""Create the contexts of runs and audits from a recipe, data, a network and a place."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from .. import models, recipes
from ..audit import preparation
from ..data import Splits
from ..data.image_sizes import in_colour, shrink
from ..data.splits import open_splits
from ..errors import ModelError
from ..parallel import broadcast_first, from_first, process_count
from ..recipes import Recipe, budget
from ..runs.suspects_csv import read_suspects
from ..stages.context import Context
from ..stages.corrections import Corrections, sample_names
from ..stages.place import Place

AUDIT_PIXELS = 64  # largest side of an image in an audit, whose networks are small


def open_context(
    recipe: Recipe,
    splits: Splits,
    place: Place,
    *,
    model: nn.Module | str | None = None,
    corrections: Corrections | None = None,
) -> Context:
    """Return what the stages of a run share; `corrections` are those of a person to the suspects."""
    context = Context(
        recipe=recipe,
        splits=splits,
        builder=_builder(recipe, splits, model),
        store=place.store,
        device=place.device,
        show=place.show,
        on_log=place.on_log,
        corrections=corrections,
    )
    builder = models.find_logits(context.builder, lambda: context.probe)
    context = replace(context, builder=builder)
    if process_count() > 1:
        from_first(lambda: bool(context.initial))  # so that weights are downloaded once
    return context


def open_corrections(suspects: Path | str | None, splits: Splits) -> Corrections | None:
    """Read the suspects.csv that a person has corrected, if there is one, in the first process."""
    if suspects is None:
        return None
    train = splits.train
    return from_first(
        lambda: read_suspects(
            suspects, sample_names(train), targets=train.targets, classes=splits.classes
        )
    )


def _builder(recipe: Recipe, splits: Splits, model: nn.Module | str | None) -> models.Builder:
    """Return the builder of the network: copies of a module, or the network that the recipe names."""
    settings, pretrained = recipe.model, recipe.start.pretrained
    if model is not None and not isinstance(model, str):
        if settings.init:
            raise ModelError(
                f"init = {settings.init!r} is for a network by name, and the model is a module. Load the "
                "weights into it, and leave init out."
            )
        return models.copy_builder(_first_weights(model))
    return models.builder(
        settings.name,
        len(splits.classes),
        settings.options,
        init=settings.init,
        pretrained=pretrained,
    )


def _first_weights(model: nn.Module) -> nn.Module:
    """Return the model with the weights that it has in the first process."""
    if process_count() == 1:
        return model
    model = copy.deepcopy(model).cpu()
    model.load_state_dict(broadcast_first(model.state_dict()))
    return model


def shrink_once(splits: Splits, limit: int) -> Splits:
    """Return the splits with images of at most `limit` pixels; several processes share the shrunk images."""
    if max(splits.train.shape[1:]) <= limit:
        return splits
    return open_splits(lambda: shrink(splits, limit))


def audit_pixels(place: Place) -> int:
    """Return the largest side of an image in an audit."""
    return min(AUDIT_PIXELS, budget.bounds_for(place.device).pixels)


def audit_context(
    splits: Splits,
    place: Place,
    *,
    model: nn.Module | str | None = None,
    seed: int = 0,
    steps: int = 0,
    changes: Mapping[str, Any] | None = None,
) -> Context:
    """Return the context of an audit: short trainings of the built-in small network, or of `model`."""
    if not isinstance(model, nn.Module):
        splits = in_colour(splits)
    name = model if isinstance(model, str) else preparation.NETWORK
    recipe = preparation.settings(
        len(splits.train), name=splits.name, model=name, seed=seed, steps=steps
    )
    recipe = recipes.change(recipe, changes or {})
    return open_context(recipe, splits, place, model=model)
