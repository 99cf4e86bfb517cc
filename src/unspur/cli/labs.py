"""Labs as the options of a command ask for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from .. import bench, data, models
from ..api import default_store, pick_device
from ..console import show
from ..data import Splits
from ..lab import Lab
from ..recipe import Recipe
from ..store import Store
from ..suspects import Given


def of_recipe(
    settings: Recipe,
    *,
    device: str | None,
    store: Path | None,
    data_root: Path | None,
    quiet: bool,
    load: Callable[..., Splits] = data.load,
) -> Lab:
    """The lab of a recipe that names its data."""
    return bench.lab_of(
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
    given: Given | None = None,
) -> Lab:
    """The lab of a user's own images."""
    model = settings.model
    return Lab(
        recipe=settings,
        splits=splits,
        builder=models.builder(model.name, len(splits.classes), model.options, init=model.init),
        store=Store(store or default_store()),
        device=device,
        show=show(quiet=quiet),
        given=given,
    )
