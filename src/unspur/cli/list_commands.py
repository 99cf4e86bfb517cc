"""`unspur methods` and `unspur theory`: list the methods, and compute the theory of DCWP."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from ..recipes.method_list import method_rows
from ..report.console import err
from ..report.console import out as output
from .options import Quiet


def methods() -> None:
    """List the methods: the supervision they need, how many networks they train, their source."""
    table = Table(Column("method", no_wrap=True), "supervision", "networks", "source")
    rows = method_rows()
    for row in rows:
        table.add_row(row.name, row.supervision, row.networks, row.source)
    output.print(table)
    own = ", ".join(row.name for row in rows if row.own_images)
    for line in (
        f"Methods for your own images: {own}.",
        "  one method:       unspur debias photos/ --method METHOD --out FOLDER",
        "  several methods:  unspur compare photos/ --methods erm,jtt,unspur --out FOLDER",
        "On Coloured MNIST with 1 % conflicting images: unspur run cmnist/1pct-METHOD",
        'With your own recipe, which has plan = "METHOD": unspur run FILE.toml',
    ):
        output.print(line, markup=False, soft_wrap=True)


def theory(
    out: Annotated[
        Path, typer.Option("--out", help="Folder for the page, the figures and the numbers.")
    ] = Path("runs/theory"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer seeds, samples and epochs: about ten seconds.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Compute the paper's bounds and simulations, and write a page, figures and all numbers."""
    from ..report import theory_page as theory_report

    began = time.perf_counter()
    say = None if quiet else partial(err.print, markup=False)
    theory_report.write(out, quick=quick, progress=say)
    output.print(
        f"{time.perf_counter() - began:.0f} s. Open {out / 'theory.html'}.",
        markup=False,
        soft_wrap=True,
    )
