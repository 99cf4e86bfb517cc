"""Small data, networks and checkpointers that several tests share."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import nn

import unspur
from unspur import models, recipes
from unspur.data.benchmarks.mnist import Digits, mnist
from unspur.data.splits import Splits
from unspur.recipes import Recipe
from unspur.stages.context import Context
from unspur.stages.keys import plan_keys
from unspur.store import Store
from unspur.testing.tiny import (
    MemoryCheckpointer,
    NoSync,
    TinyNet,
    bars,
    resident,
    same,
    shapes_set,
)

__all__ = [
    "MemoryCheckpointer",
    "NoSync",
    "TinyNet",
    "bars",
    "resident",
    "same",
    "shapes_set",
]

# A run of about a third of a second that finds suspects and prunes.
SMALL = (
    *("mine.steps=40", "mine.batch=32", "mine.rate=0.05", "mine.decay_every=0"),
    *("pretrain.steps=40", "pretrain.batch=32"),
    *("prune.steps=20", "prune.batch=32", "prune.batch_norm_batches=4"),
    *("prune.init=0.5", "prune.rate=0.1", "prune.sparsity=1e-4"),
    *("finetune.steps=30", "finetune.batch=32", "finetune.iterates=[10, 30]"),
    *("select.every=10", "select.minimum=2"),
    *("log_every=10", "checkpoint_every=15", "checkpoint_seconds=0", "precision=fp32"),
)


def without_valid(splits: Splits) -> Splits:
    """Return the same data without a validation split."""
    bias = {name: labels for name, labels in splits.bias.items() if name != "valid"}
    return replace(splits, valid=None, bias=bias)


def context(
    store: Path,
    changes: Iterable[str] = (),
    *,
    splits: Splits | None = None,
    model: nn.Module | None = None,
    builder: models.Builder | None = None,
) -> Context:
    """Return the context of a small run on the CPU; its model is the same each time unless given."""
    if model is None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = TinyNet()
    return Context(
        recipe=recipes.change(Recipe(), recipes.parse_changes([*SMALL, *changes])),
        splits=shapes_set(seed=1) if splits is None else splits,
        builder=builder or models.copy_builder(model),
        store=Store(store),
        device=torch.device("cpu"),
        show=lambda stage: nullcontext(),
    )


def at_rate(made: Context, stage: str, rate: float) -> Context:
    """Return the same context with a learning rate that recipes do not allow."""
    settings = made.recipe.table(stage).model_copy(update={"rate": rate})
    return replace(made, recipe=made.recipe.model_copy(update={stage: settings}))


def real_mnist() -> Digits:
    """Return the real digits from the folder UNSPUR_DATA; skip the test without it."""
    root = Path(os.environ.get("UNSPUR_DATA") or "unset")
    folders = (root, root / "MNIST" / "raw")
    if not any(path for folder in folders for path in folder.glob("train-images-idx3-ubyte*")):
        pytest.skip("UNSPUR_DATA names no folder with MNIST")
    return mnist(root)


class Counting(Store):
    """A store that records which stages are computed."""

    def __init__(self, root: Path):
        super().__init__(root)
        self.made: list[str] = []

    @contextmanager
    def open_artifacts(self, requests):
        with super().open_artifacts(requests) as (found, missing):
            self.made += [path.name.partition("-")[0] for path in missing]
            yield found, missing


def ingredients_of(made_in: Context) -> list[dict[str, object]]:
    """Return the ingredients of every stage of a plan, in order."""
    return [dict(key.ingredients) for key in plan_keys(made_in).values()]


def save_bars(root: Path, *, seed: int = 1) -> None:
    """Write the bars of `shapes_set` as files: root/split/class/number.png, for training and test."""
    splits = shapes_set(seed=seed)
    for name in ("train", "test"):
        part = splits.parts()[name]
        images = part.take(torch.arange(len(part))).permute(0, 2, 3, 1).numpy()
        for i, (image, target) in enumerate(zip(images, part.targets.tolist(), strict=True)):
            folder = root / name / splits.classes[target]
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(folder / f"{i:03d}.png")


def small_run(home: Path) -> None:
    """Debias home/photos with a tiny network, which home/model.py builds; the run is home/run."""
    (home / "model.py").write_text(
        "from toys import TinyNet\n\n\ndef build(classes):\n    return TinyNet(classes)\n"
    )
    torch.manual_seed(0)
    unspur.debias(
        home / "photos",
        model=TinyNet(2),
        settings=recipes.parse_changes(SMALL),
        anyway=True,
        device="cpu",
        out=home / "run",
        store=home / "store",
    )
