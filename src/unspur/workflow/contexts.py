"""The contexts of runs and audits: recipe, data, network and place put together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from .. import models, recipes
from ..audit import preparation
from ..data import Splits
from ..errors import ModelError
from ..recipes import Recipe, budget
from ..runs.suspects_csv import read_suspects
from ..stages.context import Context
from ..stages.corrections import Corrections, sample_names
from ..stages.place import Place

AUDIT_PIXELS = 64  # largest side of an image in an audit; its small networks see no more


def open_context(
    recipe: Recipe,
    splits: Splits,
    place: Place,
    *,
    model: nn.Module | str | None = None,
    corrections: Corrections | None = None,
) -> Context:
    """Return what the stages of a run share; `corrections` are a person's, of the suspects."""
    return Context(
        recipe=recipe,
        splits=splits,
        builder=_builder(recipe, splits, model),
        store=place.store,
        device=place.device,
        show=place.show,
        corrections=corrections,
    )


def open_corrections(suspects: Path | str | None, splits: Splits) -> Corrections | None:
    """Read the suspects.csv that a person has corrected, if there is one."""
    if suspects is None:
        return None
    train = splits.train
    return read_suspects(
        suspects, sample_names(train), targets=train.targets, classes=splits.classes
    )


def _builder(recipe: Recipe, splits: Splits, model: nn.Module | str | None) -> models.Builder:
    """Return the builder of the network: copies of a module, or what the recipe names."""
    wanted, pretrained = recipe.model, recipe.start.pretrained
    if model is not None and not isinstance(model, str):
        if wanted.init:
            raise ModelError(
                f"init = {wanted.init!r} is for a network by name, and the model is a module. Load the "
                "weights into it, and leave init out."
            )
        return models.copies_of(model)
    return models.builder(
        wanted.name,
        len(splits.classes),
        wanted.options,
        init=wanted.init,
        pretrained=pretrained,
    )


def audit_pixels(place: Place) -> int:
    """Return the largest side of an image in an audit."""
    return min(AUDIT_PIXELS, budget.of(place.device).pixels)


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
    name = model if isinstance(model, str) else preparation.NETWORK
    recipe = preparation.settings(
        len(splits.train), name=splits.name, model=name, seed=seed, steps=steps
    )
    recipe = recipes.change(recipe, changes or {})
    return open_context(recipe, splits, place, model=model)
