"""`unspur evaluate`: score the models of a run on labelled images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from .. import run_api
from ..report import terminal
from ..runs.evaluation import Evaluation
from ..runs.evaluation_files import describe_evaluation, table_notes, table_of
from .options import Device, Pattern, Root, RunModel, Trust

MOST_ROWS = 40  # rows of a table in the terminal


def evaluate(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    source: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="Labelled folder, table, hf:NAME, or name of a benchmark."
        ),
    ],
    model: RunModel = None,
    group: Annotated[
        str | None, typer.Option(help="Column of the table with the groups. Default: group.")
    ] = None,
    pattern: Pattern = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the scores to OUT.json, OUT.csv and OUT.md.")
    ] = None,
    device: Device = None,
    ratio: Annotated[
        str, typer.Option(help="Share of conflicting images of a benchmark.")
    ] = "1pct",
    data_root: Root = None,
    trust: Trust = False,
) -> None:
    """Score the debiased and the ordinary model of a run on labelled images."""
    found = run_api.evaluate(
        folder,
        source,
        model=model,
        trust=trust,
        group=group,
        pattern=pattern or "",
        device=device,
        out=out,
        ratio=ratio,
        data_root=data_root,
    )
    _say(found, out)


def _say(found: Evaluation, out: Path | None) -> None:
    terminal.out.print(describe_evaluation(found), markup=False)
    for kind in ("overall", "class", "group"):
        header, *rows = table_of(found, kind)
        if rows:
            _print_table(header, rows)
    for note in table_notes(found):
        terminal.out.print(note, markup=False)
    if out is not None:
        base = out.with_suffix("") if out.suffix in (".json", ".csv", ".md") else out
        text = f"The numbers are in {base}.json and {base}.csv, the tables in {base}.md."
        terminal.out.print(text, markup=False, soft_wrap=True)


def _print_table(header: list[str], rows: list[list[str]]) -> None:
    table = Table(header[0], *(Column(name, justify="right") for name in header[1:]))
    for cells in rows[:MOST_ROWS]:
        table.add_row(*cells)
    terminal.out.print(table)
    if len(rows) > MOST_ROWS:
        left = f"{len(rows) - MOST_ROWS} more rows; --out writes all of them."
        terminal.out.print(left, markup=False)
