"""An item with tiny runs, for the tests of `unspur reproduce`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from toys import Counting, TinyNet, shapes_set
from unspur import models, recipes
from unspur.recipes import Recipe
from unspur.reproduce import ReproduceOptions
from unspur.reproduce.item import Cells, Item, ItemCell, Page
from unspur.reproduce.pages import FACTS, facts
from unspur.reproduce.records import Records
from unspur.runs import tables
from unspur.stages.context import Context

TINY = [
    *(f"{stage}.steps=4" for stage in ("pretrain", "prune", "finetune", "lff")),
    *(f"{stage}.batch=32" for stage in ("pretrain", "prune", "finetune", "lff")),
    *('mine.how="oracle"', "prune.batch_norm_batches=1", 'select.rule="last"'),
]


def tiny(*changes: str) -> Recipe:
    return recipes.change(Recipe(), recipes.parse_changes([*TINY, *changes]))


def cells() -> Cells:
    return {
        ("DCWP",): ItemCell(tiny("name=dcwp"), (5, 6)),
        ("ERM",): ItemCell(tiny("name=erm", "plan=erm"), (5, 6, 7)),
    }


def draw(results: Any) -> Page:
    header = ["method", *FACTS, "accuracy"]
    rows = [
        [name, *facts(each), each.text("debiased", "unbiased")] for (name,), each in results.items()
    ]
    return Page(["\n".join(tables.markdown_table(header, rows))], {"toy.svg": "<svg/>"})


TOY = Item("A toy", cells, draw)


def toy_options(folder: Path, store: Counting) -> ReproduceOptions:
    torch.manual_seed(0)
    builder, splits = models.copy_builder(TinyNet()), shapes_set(samples=120)

    def context_of(settings: Recipe) -> Context:
        where, show = torch.device("cpu"), lambda stage: nullcontext()
        return Context(settings, splits, builder, store, where, show)

    return ReproduceOptions(
        folder / "results",
        folder / "pages",
        context_of,
        lambda name, **kwargs: splits,
        lambda line: None,
    )


def changed(options: ReproduceOptions, **changes: Any) -> ReproduceOptions:
    return ReproduceOptions(**{**options.__dict__, **changes})


def recorded_runs(options: ReproduceOptions, item: str = "toy") -> list[tuple[str, int]]:
    """Return the name and the seed of every line of an item."""
    records = Records(options.results)
    return sorted(
        (records.recipes[line["recipe"]]["name"], line["seed"])
        for line in records.lines
        if line["item"] == item
    )
