"""The target of the fuzzing: a small store with a run, an export and an audit, built once."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

import audits
from toys import SMALL, shapes_set
from unspur import recipes, run_api, workflow
from unspur.data.splits import Splits
from unspur.recipes import Recipe
from unspur.stages.context import Context
from unspur.stages.place import Place
from unspur.store import Store

CHANGES = (*SMALL, "model.name=convnet", "model.options.width=4", "data.name=folder", "judge=false")
# The shortest run that mines, prunes and fine-tunes, so that every one of its calls can be made to fail.
SHORT = (
    *("mine.steps=6", "pretrain.steps=6", "prune.steps=6", "finetune.steps=6"),
    *("finetune.iterates=[3, 6]", "select.every=3", "log_every=3", "checkpoint_every=3"),
    *("mine.threshold=0.4", "prune.batch_norm_batches=1"),
)


@dataclass(frozen=True)
class Desk:
    """The folders of a store, a run, an export and an audit."""

    root: Path

    @property
    def store(self) -> Path:
        return self.root / "store"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def export(self) -> Path:
        return self.root / "export"

    @property
    def audit(self) -> Path:
        return self.root / "audit"

    @cached_property
    def images(self) -> Tensor:
        return shapes_set(seed=1).train.take(torch.arange(6))


def recipe(changes: tuple[str, ...] = ()) -> Recipe:
    return recipes.change(Recipe(), recipes.parse_changes([*CHANGES, *changes]))


def place(store: Path) -> Place:
    return Place(torch.device("cpu"), Store(store), lambda stage: nullcontext())


def make_run(root: Path, changes: tuple[str, ...] = ()) -> Context:
    """Run a small recipe as `unspur run` would: store, folder and page."""

    def load(*_: object, **__: object) -> Splits:
        return shapes_set(seed=1, samples=60) if changes else shapes_set(seed=1)

    opened = workflow.open_recipe(recipe(changes), place(root / "store"), load=load)
    workflow.carry_out(opened, root / "run")
    return opened.context


def make_export(root: Path) -> None:
    """Export the run of a desk, and check it with its own images."""
    from unspur.deploy import export

    images = shapes_set(seed=1).train.take(torch.arange(6))
    formats = ("safetensors", "packed")
    export.export(
        root / "run", root / "export", images, make_slim=True, kinds=formats, seconds=0.01
    )


def make_page(root: Path) -> None:
    run_api.report(root / "run", root / "page.html", store=root / "store")


def build(root: Path) -> Desk:
    """Build the run, the export and the audit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make_run(root)
        make_export(root)
        small = audits.context(Store(root / "audit-store"), audits.tinted("shortcut", n=200))
        workflow.carry_out_audit(small, root / "audit")
    return Desk(root)
