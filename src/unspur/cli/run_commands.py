"""`unspur run`, `debias` and `demo`: a recipe, your own images, embedded digits; from data to a folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from .. import recipes, workflow
from ..data import Splits
from ..data.custom.assembly import UserImages
from ..report import terminal
from ..report.terminal import err, score_table, show, summary
from ..stages.estimate import estimate
from ..stages.place import find_place
from ..workflow import Outcome, Prepared
from .options import (
    Changes,
    Device,
    Model,
    Out,
    Quiet,
    Root,
    Seed,
    Size,
    Source,
    StoreAt,
    command_line,
)


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
    recipe = recipes.load(name, changes)
    place = find_place(device, store, show(quiet=quiet))
    prepared = workflow.open_recipe(recipe, place, root=data_root)
    if dry_run:
        _say_plan(prepared)
        return
    _finish(prepared, out or Path("runs") / f"{recipe.name.replace('/', '-')}-seed{recipe.seed}")


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
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Do not ask first whether there is a shortcut.")
    ] = False,
    dry_run: Annotated[bool, typer.Option(help="Only say how long it takes.")] = False,
    quiet: Quiet = False,
) -> None:
    """Remove the shortcut from a classifier of your own images, if there is one."""
    prepared = workflow.open_debias(
        UserImages(source),
        find_place(device, store, show(quiet=quiet)),
        model=model,
        init=init,
        size=size,
        settings={"seed": seed, **recipes.parse_changes(set_ or [])},
        suspects=suspects,
        anyway=anyway,
    )
    err.print(_described(prepared.context.splits), markup=False)
    _say_plan(prepared, dry_run=dry_run)
    if not dry_run:
        _finish(prepared, out)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the result.")] = Path("runs/demo"),
    store: StoreAt = None,
    quiet: Quiet = False,
) -> None:
    """Run the whole chain on embedded data, on the CPU, in about a minute."""
    place = find_place("cpu", store, show(quiet=quiet))
    _finish(workflow.open_recipe(recipes.load("demo"), place), out)


def _described(splits: Splits) -> str:
    """Describe the data in a line."""
    _, high, wide = splits.train.shape
    parts = ", ".join(f"{len(part)} {name}" for name, part in splits.parts().items())
    return f"{splits.name}: {parts} images of {len(splits.classes)} classes, {wide} x {high} pixels"


def _finish(prepared: Prepared, folder: Path) -> None:
    """Run the plan, write the folder, say what came of it."""
    began = time.perf_counter()
    stored = prepared.stored
    outcome = workflow.carry_out(prepared, folder, command=command_line())
    terminal.out.print(score_table(outcome.numbers))
    for line in summary(outcome.numbers):
        terminal.out.print(line, markup=False)
    _say_where(outcome, folder, stored, time.perf_counter() - began)


def _say_where(outcome: Outcome, folder: Path, stored: list[str], seconds: float) -> None:
    reused = [name for name in stored if name in outcome.results]
    if reused:
        terminal.out.print(f"Already stored, not run again: {', '.join(reused)}.", markup=False)
    opened = f" Open {outcome.page}." if outcome.page else ""
    text = f"{seconds:.0f} s. Everything is in {folder}/.{opened}"
    terminal.out.print(text, markup=False, soft_wrap=True)


def _say_plan(prepared: Prepared, *, dry_run: bool = True) -> None:
    """Show every stage: is it stored, and what would it cost?"""
    table = Table("stage", "steps", "stored", "about", "disk")
    rows = estimate(prepared.run)
    for row in rows:
        cost = ("–", "–") if row.stored else (f"{row.seconds:.0f} s", terminal.size(row.disk))
        table.add_row(row.stage, str(row.steps), "yes" if row.stored else "no", *cost)
    terminal.out.print(table)
    seconds = sum(row.seconds for row in rows)
    told = f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} s"
    end = "; nothing was run." if dry_run else "."
    terminal.out.print(f"about {told} on {prepared.context.device}{end}", markup=False)
