"""`unspur methods` and `unspur theory`: the methods there are, and why DCWP works."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from ..methods import all_methods
from ..recipes.own_methods import own_methods
from ..report import terminal
from ..report import theory_page as theory_report
from ..report.terminal import err
from .options import Quiet


def methods() -> None:
    """List the methods: the supervision they need, how many networks they train, their source."""
    table = Table(Column("method", no_wrap=True), "supervision", "networks", "source")
    for name, about in all_methods().items():
        table.add_row(name, about.supervision, about.networks, about.source)
    terminal.out.print(table)
    own = ", ".join(own_methods())
    terminal.out.print(
        f"On your own images: unspur debias photos/ --method METHOD --out FOLDER ({own}); several: "
        "unspur compare photos/ --methods erm,jtt,unspur --out FOLDER",
        markup=False,
        soft_wrap=True,
    )
    terminal.out.print("Run one on CMNIST with 1 %: unspur run cmnist/1pct-METHOD", markup=False)
    terminal.out.print(
        'Or with plan = "METHOD" in a recipe of yours: unspur run FILE.toml', markup=False
    )


def theory(
    out: Annotated[
        Path, typer.Option("--out", help="Folder for the page, the figures and the numbers.")
    ] = Path("runs/theory"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer seeds, samples and epochs: about ten seconds.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Compute the paper's bounds and simulations: one page, figures, every number."""
    began = time.perf_counter()
    say = None if quiet else partial(err.print, markup=False)
    theory_report.write(out, quick=quick, progress=say)
    terminal.out.print(
        f"{time.perf_counter() - began:.0f} s. Open {out / 'theory.html'}.",
        markup=False,
        soft_wrap=True,
    )
