"""`unspur reproduce`: reproduce the tables and figures of the paper by name."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, get_args

import torch
import typer
from rich.table import Column, Table

from .. import data
from ..errors import RecipeError, UnspurError
from ..report import terminal
from ..report.pool_table import show_pool
from ..report.terminal import err
from ..reproduce import GROUPS, ITEMS, ItemOutcome, ReproduceOptions, select_items
from ..reproduce import reproduce as reproduce_item
from ..training.numerics import Precision
from ..workflow import Site
from .cluster_options import open_pool
from .help_text import ClusterCommand
from .options import CpusPerGroup, Device, GpusPerGroup, Quiet, Ray, Root, StoreAt, Together

QUICK_FOLDER = Path("runs/reproduce-quick")  # separate from the real records and pages


Names = Annotated[
    list[str], typer.Argument(metavar="NAME", help=f"{', '.join([*GROUPS, *ITEMS])}.")
]
Quick = Annotated[
    bool,
    typer.Option("--quick", help="Very short runs for a CPU: only a test that everything works."),
]
ResultsAt = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the records; by default results, with --quick runs/reproduce-quick/results."
    ),
]
PagesAt = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the pages; by default docs/results, with --quick runs/reproduce-quick/pages."
    ),
]
Minutes = Annotated[
    float | None, typer.Option(min=0, help="Start no new run after this number of minutes.")
]
Only = Annotated[
    str, typer.Option(help="Run only recipes whose names match, such as 'cmnist/1pct-*'.")
]
RunPrecision = Annotated[
    str, typer.Option(help="fp32, tf32 or bf16 for new runs; by default that of the recipe.")
]
NoRun = Annotated[
    bool, typer.Option("--no-run", help="Run nothing; write the pages from existing records.")
]

COMMAND = ClusterCommand


def reproduce(
    names: Names,
    quick: Quick = False,
    results: ResultsAt = None,
    pages: PagesAt = None,
    store: StoreAt = None,
    device: Device = None,
    data_root: Root = None,
    together: Together = 1,
    minutes: Minutes = None,
    only: Only = "*",
    precision: RunPrecision = "",
    no_run: NoRun = False,
    ray: Ray = "",
    cpus_per_group: CpusPerGroup = 1.0,
    gpus_per_group: GpusPerGroup = None,
    quiet: Quiet = False,
) -> None:
    """Reproduce tables and figures of the paper: run what is missing, and write their pages.

    A run that has a record is not run again.
    """
    if quick:
        torch.set_num_threads(1)  # networks this small are slower with more threads
    selected, site = select_items(names), Site(device, store, data_root)
    open_run = site.opener(terminal.show(quiet=quiet))
    options = ReproduceOptions(
        results=results or (QUICK_FOLDER / "results" if quick else Path("results")),
        pages=pages or (QUICK_FOLDER / "pages" if quick else Path("docs/results")),
        context_of=site.absolute().context if ray else lambda recipe: open_run(recipe).context,
        load=partial(cache(data.load), root=data_root),
        say=(lambda line: None) if quiet else partial(err.print, markup=False, soft_wrap=True),
        together=together,
        until=time.monotonic() + 60 * minutes if minutes is not None else float("inf"),
        only=only,
        precision=_precision(precision),
        run=not no_run,
        quick=quick,
    )
    with show_pool(quiet=quiet or not ray) as show:
        if ray:
            pool = open_pool(ray, device, cpus_per_group, gpus_per_group, show)
            options = replace(options, pool=pool)
        outcomes = {name: reproduce_item(name, ITEMS[name], options) for name in selected}
    _report(outcomes)


def _precision(name: str) -> str:
    if name and name not in get_args(Precision):
        raise RecipeError(f"--precision {name}: choose one of {', '.join(get_args(Precision))}.")
    return name


def _report(outcomes: dict[str, ItemOutcome]) -> None:
    """Print the outcome of each item; raise if something failed."""
    terminal.out.print(_table(outcomes))
    left = len({run for outcome in outcomes.values() for run in outcome.missing})
    if left:
        what = "1 run is" if left == 1 else f"{left} runs are"
        terminal.out.print(f"{what} still missing; the pages list the missing runs.", markup=False)
    for name, outcome in outcomes.items():
        for problem in outcome.problems:
            err.print(f"{name}: {problem}", markup=False, soft_wrap=True)
    failed = [name for name, outcome in outcomes.items() if outcome.problems]
    if failed:
        raise UnspurError(f"some items failed: {', '.join(failed)}. The reasons are above.")


def _table(outcomes: dict[str, ItemOutcome]) -> Table:
    table = Table(Column("item", no_wrap=True), "runs", "page")
    for name, outcome in outcomes.items():
        runs = f"{outcome.found} of {outcome.wanted}" if outcome.wanted else "–"
        table.add_row(name, runs, str(outcome.page or "–"))
    return table
