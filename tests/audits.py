"""Audits of a few seconds that several tests use."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import torch

from pages import NASTY
from toys import TinyNet
from unspur import models, recipes
from unspur.audit import auditor, preparation
from unspur.data.benchmarks import planted
from unspur.data.splits import Split, Splits
from unspur.report import page
from unspur.runs import audit_folder
from unspur.stages.context import Context
from unspur.store import Store

SMALL = {
    f"{stage}.{name}": value
    for stage in ("mine", "pretrain")
    for name, value in {"steps": 100, "batch": 32, "rate": 0.02}.items()
}


def tinted(kind, *, n=600, odd=30, seed=0):
    """Return faint bars, vertical or horizontal; the tint nearly always fits the class, or is random."""
    g = torch.Generator().manual_seed(seed)
    targets = torch.randint(2, (n,), generator=g)
    tint = targets.clone() if kind == "shortcut" else torch.randint(2, (n,), generator=g)
    if kind == "shortcut":
        tint[torch.randperm(n, generator=g)[:odd]] ^= 1
    images = torch.randint(0, 60, (n, 3, 8, 8), generator=g)
    at = torch.randint(1, 7, (n,), generator=g)
    rows = torch.arange(n)
    images[rows, 2 * tint] += 40
    bar = torch.zeros(n, 8, 8, dtype=torch.int64)
    bar[rows, :, at] = 60
    images[:, 1] += torch.where(targets[:, None, None] == 0, bar, bar.mT)
    splits = Splits(
        train=Split(images.to(torch.uint8), targets),
        classes=("stands", "lies"),
        bias={"train": tint},
        name="tinted",
    )
    return planted.mislabelled(splits, share=0.1, seed=seed) if kind == "noise" else splits


def network(classes=2):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return TinyNet(classes)


def context(store, splits=None, **changes):
    splits = tinted("shortcut") if splits is None else splits
    base = preparation.settings(len(splits.train), name="tinted")
    settings = {**SMALL, **changes}
    return Context(
        recipe=recipes.change(
            base, recipes.parse_changes(f"{key}={value}" for key, value in settings.items())
        ),
        splits=splits,
        builder=models.copy_builder(network()),
        store=store,
        device=torch.device("cpu"),
        show=lambda stage: nullcontext(),
    )


def named(splits):
    """Return the same data, whose image names and class name contain HTML."""
    names = tuple(f"bars/{i:03d}{NASTY if i % 2 else '.png'}" for i in range(len(splits.train)))
    return replace(
        splits,
        train=replace(splits.train, names=names),
        classes=(NASTY, "lies"),
        bias_classes=("red", "<blue>") if splits.bias else (),
    )


def page_of(folder: Path, splits: Splits, *, command: str = "", source: str = "") -> Path:
    """Return the report of a small audit."""
    small = context(Store(folder / "store"), splits)
    out = folder / "out"
    audit_folder.save(auditor.audit(small), small, out, command=command, source=source)
    path = page.write_if_possible(out)
    assert path is not None
    return path
