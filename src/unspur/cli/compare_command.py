"""`unspur compare`: train several methods on your own images, and write one table and a page."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from .. import recipes, workflow
from ..data.custom.assembly import UserImages
from ..data.splits import describe
from ..report import comparison_page, terminal
from ..report.run_clock import duration
from ..report.terminal import err, show
from ..runs.comparison_record import PARTS, ComparedMethod, MethodComparison
from ..stages import Run
from ..stages.estimate import estimate
from ..stages.place import command_place
from .options import (
    Bias,
    Changes,
    Device,
    OwnModel,
    Pretrained,
    Quiet,
    Seed,
    Size,
    Source,
    StoreAt,
    Suspects,
    Threads,
    check_out,
    command_line,
)


def compare(
    source: Source,
    out: Annotated[Path, typer.Option("--out", callback=check_out, help="Folder for the results.")],
    methods: Annotated[
        str, typer.Option(help="Names from `unspur methods`, separated by commas.")
    ] = ",".join(workflow.METHODS),
    bias: Bias = None,
    model: OwnModel = None,
    init: Annotated[str, typer.Option(help="Weights to start from: .safetensors or .pth.")] = "",
    pretrained: Pretrained = False,
    size: Size = 0,
    seed: Seed = 0,
    device: Device = None,
    threads: Threads = None,
    store: StoreAt = None,
    set_: Changes = None,
    suspects: Suspects = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Train nothing; estimate how long it takes.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Train several methods on your own images, and compare their scores."""
    images = UserImages(source, bias=bias)
    names = [name.strip() for name in methods.split(",") if name.strip()]
    workflow.refuse_folders(out, names, images.source)
    runs_by_method = workflow.open_comparison(
        images,
        command_place(device, store, show(quiet=quiet), threads),
        names,
        model=model,
        init=init,
        pretrained=pretrained,
        size=size,
        settings={"seed": seed, **recipes.parse_changes(set_ or [])},
        suspects=suspects,
    )
    _say_plan(runs_by_method, dry_run=dry_run)
    if dry_run:
        return
    began = time.perf_counter()
    found = workflow.carry_out_comparison(
        runs_by_method, out, command=command_line(), source=images.source
    )
    _say(found, time.perf_counter() - began)


def _say_plan(runs_by_method: dict[str, Run], *, dry_run: bool) -> None:
    """Print how long the comparison takes; a stage that methods share counts once."""
    first = next(iter(runs_by_method.values()))
    err.print(describe(first.context.splits), markup=False)
    costs: dict[Path, float] = {}
    for run in runs_by_method.values():
        rows = estimate(run)
        costs |= {key.path: row.seconds for key, row in zip(run.keys.values(), rows, strict=True)}
    stages = f"{_count(len(costs), 'stage')} for {_count(len(runs_by_method), 'method')}"
    end = "; nothing was run." if dry_run else "."
    terminal.out.print(
        f"{stages}, about {duration(sum(costs.values()))} on {first.context.device}{end}",
        markup=False,
    )


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"


def _say(found: MethodComparison, seconds: float) -> None:
    terminal.out.print(table(found))
    note = "Accuracy in per cent; kept: share of the weights that remain."
    if found.unseen_counts:
        note += " Suspects and others: held-out images, divided by the flags of the miner."
    terminal.out.print(note, markup=False)
    for line in (f"{comparison_page.headline(found)}.", comparison_page.lead(found)):
        terminal.out.print(line, markup=False, soft_wrap=True)
    advice = f" Open {found.page}." if found.page else ""
    text = f"{seconds:.0f} s. Everything is in {found.out}/.{advice}"
    terminal.out.print(text, markup=False, soft_wrap=True)


def table(found: MethodComparison) -> Table:
    """Return the scores in per cent: those by true groups if known, then those by suspects."""
    parts = [part for part in PARTS if part in found.unseen_counts]
    metrics = [name for name in found.metrics if name != "average"] or ["average"]
    names = [*(name.replace("_", " ") for name in metrics), *parts, "kept"]
    columns = (Column(name, justify="right") for name in names)
    first = Column("method", no_wrap=True)
    shown = Table(first, *columns, box=None, padding=(0, 2, 0, 0))  # narrow, for many columns
    for method in found.methods:
        shown.add_row(method.name, *_cells(method, metrics, parts))
    return shown


def _cells(method: ComparedMethod, metrics: list[str], parts: list[str]) -> list[str]:
    shares = [method.scores.get(name) for name in metrics]
    shares += [method.unseen.get(part) for part in parts]
    values = [None if share is None else share.value for share in shares]
    return ["–" if v is None else f"{100 * v:.1f}" for v in (*values, method.weights_kept)]
