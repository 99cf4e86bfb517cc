"""Labs as the options of a command ask for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from .. import data, models
from ..api import default_store, pick_device
from ..data import Splits
from ..recipes.loading import Recipe
from ..report.terminal import show
from ..runs import bench
from ..stages.context import Context
from ..stages.corrections import Corrections
from ..store import Store


def of_recipe(
    settings: Recipe,
    *,
    device: str | None,
    store: Path | None,
    data_root: Path | None,
    quiet: bool,
    load: Callable[..., Splits] = data.load,
) -> Context:
    """The context of a recipe that names its data."""
    return bench.context_of(
        settings,
        root=data_root,
        store=Store(store or default_store()),
        device=pick_device(device),
        show=show(quiet=quiet),
        load=load,
    )


def of_images(
    settings: Recipe,
    splits: Splits,
    *,
    device: torch.device,
    store: Path | None,
    quiet: bool,
    given: Corrections | None = None,
) -> Context:
    """The context of a user's own images."""
    model = settings.model
    return Context(
        recipe=settings,
        splits=splits,
        builder=models.builder(model.name, len(splits.classes), model.options, init=model.init),
        store=Store(store or default_store()),
        device=device,
        show=show(quiet=quiet),
        corrections=given,
    )
