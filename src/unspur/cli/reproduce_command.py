"""`unspur reproduce`: every table and figure of the paper, by name."""

from __future__ import annotations

import time
from functools import cache, partial
from pathlib import Path
from typing import Annotated, get_args

import torch
import typer
from rich.table import Column, Table

from .. import data, workflow
from ..errors import RecipeError, UnspurError
from ..recipes import Recipe
from ..report import terminal
from ..report.terminal import err
from ..reproduce import ITEMS, SEVERAL, Desk, Outcome, chosen
from ..reproduce import reproduce as reproduce_item
from ..stages.context import Context
from ..training.numerics import Precision
from .options import Device, Quiet, Root, StoreAt, Together


def reproduce(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help=f"{', '.join([*SEVERAL, *ITEMS])}.")
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="Scaled down for a CPU: shows that it works, no more.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Folder of results (docs/results; quick: runs/reproduce-quick)."
        ),
    ] = None,
    store: StoreAt = None,
    device: Device = None,
    data_root: Root = None,
    together: Together = 1,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Begin no run after so many minutes.")
    ] = None,
    only: Annotated[
        str, typer.Option(help="Run only recipes of such names, as 'cmnist/1pct-*'.")
    ] = "*",
    precision: Annotated[
        str, typer.Option(help="fp32, tf32 or bf16, for what is run; the recipe's if not given.")
    ] = "",
    no_run: Annotated[
        bool, typer.Option("--no-run", help="Run nothing, draw what is on record.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Run what is missing of the paper's tables and figures, and write their pages.

    A run that is on record below the folder of results is not run again.
    """
    if quick:
        torch.set_num_threads(1)  # for networks this small, more threads only wait for each other
    wanted, load = chosen(names), cache(data.load)
    place = workflow.find_place(device, store, terminal.show(quiet=quiet))

    def context_of(recipe: Recipe) -> Context:
        return workflow.open_recipe(recipe, place, root=data_root, load=load).context

    desk = Desk(
        out=out or Path("runs/reproduce-quick" if quick else "docs/results"),
        context_of=context_of,
        load=partial(load, root=data_root),
        say=(lambda line: None) if quiet else partial(err.print, markup=False, soft_wrap=True),
        together=together,
        until=time.monotonic() + 60 * minutes if minutes is not None else float("inf"),
        only=only,
        precision=_precision(precision),
        run=not no_run,
        quick=quick,
    )
    _say({name: reproduce_item(name, ITEMS[name], desk) for name in wanted})


def _precision(name: str) -> str:
    if name and name not in get_args(Precision):
        raise RecipeError(f"--precision {name}: choose one of {', '.join(get_args(Precision))}.")
    return name


def _say(outcomes: dict[str, Outcome]) -> None:
    """What came of it; an error where something could not be made."""
    table = Table(Column("item", no_wrap=True), "runs", "page")
    for name, outcome in outcomes.items():
        runs = f"{outcome.found} of {outcome.wanted}" if outcome.wanted else "–"
        table.add_row(name, runs, str(outcome.page or "–"))
    terminal.out.print(table)
    left = sum(outcome.wanted - outcome.found for outcome in outcomes.values())
    if left:
        terminal.out.print(f"{left} runs are left; the pages list them.", markup=False)
    for name, outcome in outcomes.items():
        for problem in outcome.problems:
            err.print(f"{name}: {problem}", markup=False, soft_wrap=True)
    failed = [name for name, outcome in outcomes.items() if outcome.problems]
    if failed:
        raise UnspurError(f"not everything could be made: {', '.join(failed)}; see above.")
