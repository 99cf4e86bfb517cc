"""`unspur run`, `debias` and `demo`: a recipe, your own images, embedded digits; from data to a folder."""

from __future__ import annotations

import csv
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from .. import recipes, stages
from ..api import pick_device
from ..data import Splits, custom
from ..delivery import deliver
from ..recipes import budget
from ..report import terminal
from ..report.terminal import err, score_table, summary
from ..report.terminal import size as told_size
from ..runs.suspects_csv import read_suspects
from ..stages.context import Context
from ..stages.corrections import sample_names
from ..stages.estimate import estimate
from . import contexts
from .options import Changes, Device, Model, Out, Quiet, Root, Seed, Size, Source, StoreAt


def run(
    name: Annotated[str, typer.Argument(help="A recipe by name (see `unspur recipes`) or file.")],
    seed: Annotated[int | None, typer.Option(help="Seed of all training.")] = None,
    device: Device = None,
    out: Out = None,
    store: StoreAt = None,
    data_root: Root = None,
    set_: Changes = None,
    dry_run: Annotated[
        bool, typer.Option(help="Say what would be done, and how long it takes.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Run a recipe: mine, pretrain, prune, fine-tune, evaluate."""
    changes = [*(set_ or []), *([f"seed={seed}"] if seed is not None else [])]
    settings = recipes.load(name, changes)
    context = contexts.of_recipe(
        settings, device=device, store=store, data_root=data_root, quiet=quiet
    )
    if dry_run:
        _say_plan(context)
        return
    _finish(context, out or Path("runs") / f"{settings.name.replace('/', '-')}-seed{settings.seed}")


def debias(
    source: Source,
    out: Annotated[Path, typer.Option("--out", help="Folder for the result.")],
    model: Model = "resnet18",
    init: Annotated[str, typer.Option(help="Weights to start from: .safetensors or .pth.")] = "",
    size: Size = 0,
    seed: Seed = 0,
    device: Device = None,
    store: StoreAt = None,
    set_: Changes = None,
    suspects: Annotated[
        Path | None, typer.Option(help="The suspects.csv of a run, corrected by you.")
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Only say how long it takes.")] = False,
    quiet: Quiet = False,
) -> None:
    """Remove the shortcut from a classifier of your own images."""
    where = pick_device(device)
    splits = custom.load(source, limit=size or budget.of(where).pixels)
    settings = budget.settings(len(splits.train), where, name=splits.name, model=model, init=init)
    settings = recipes.change(settings, [f"seed={seed}", *(set_ or [])])
    given = read_suspects(suspects, sample_names(splits.train)) if suspects else None
    context = contexts.of_images(
        settings, splits, device=where, store=store, quiet=quiet, given=given
    )
    err.print(_described(splits), markup=False)
    _say_plan(context, dry_run=dry_run)
    if not dry_run:
        _finish(context, out)
        _save_skipped(splits, out)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the result.")] = Path("runs/demo"),
    store: StoreAt = None,
    quiet: Quiet = False,
) -> None:
    """Run the whole chain on embedded data, on the CPU, in about a minute."""
    context = contexts.of_recipe(
        recipes.load("demo"), device="cpu", store=store, data_root=None, quiet=quiet
    )
    _finish(context, out)


def _described(splits: Splits) -> str:
    """The data in a line."""
    _, high, wide = splits.train.shape
    parts = ", ".join(f"{len(part)} {name}" for name, part in splits.parts().items())
    return f"{splits.name}: {parts} images of {len(splits.classes)} classes, {wide} x {high} pixels"


def _save_skipped(splits: Splits, folder: Path) -> None:
    """List the images that could not be read."""
    if not splits.skipped:
        (folder / "skipped.csv").unlink(missing_ok=True)  # of an earlier run
        return
    with (folder / "skipped.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("path", "reason"), *splits.skipped.items()])


def _finish(context: Context, folder: Path) -> None:
    """Run the plan, write the folder, say what came of it."""
    began = time.perf_counter()
    reused = [i["stage"] for i in context.plan() if context.store.path(i).exists()]
    made, scores = stages.run(context)
    page = deliver(context, made, scores, folder, command=shlex.join(["unspur", *sys.argv[1:]]))
    terminal.out.print(score_table(scores.facts))
    for line in summary(scores.facts):
        terminal.out.print(line, markup=False)
    if reused:
        terminal.out.print(f"Already stored, not run again: {', '.join(reused)}.", markup=False)
    terminal.out.print(
        f"{time.perf_counter() - began:.0f} s. Everything is in {folder}/."
        + (f" Open {page}." if page else ""),
        markup=False,
        soft_wrap=True,
    )


def _say_plan(context: Context, *, dry_run: bool = True) -> None:
    table = Table("stage", "steps", "stored", "about", "disk")
    rows = estimate(context)
    for row in rows:
        table.add_row(
            row.stage,
            str(row.steps),
            "yes" if row.stored else "no",
            "–" if row.stored else f"{row.seconds:.0f} s",
            "–" if row.stored else told_size(row.disk),
        )
    terminal.out.print(table)
    minutes = sum(row.seconds for row in rows) / 60
    told = f"{minutes:.0f} minutes" if minutes >= 2 else f"{60 * minutes:.0f} s"
    terminal.out.print(
        f"about {told} on {context.device}" + ("; nothing was run." if dry_run else "."),
        markup=False,
    )
