"""`unspur bench`: many runs, one table."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from .. import data, recipes, stages, workflow
from ..errors import RecipeError
from ..report import terminal
from ..runs import bench as benching
from ..stages.place import command_place
from .options import Changes, Device, Quiet, Root, StoreAt, Threads, Together


def bench(
    names: Annotated[list[str], typer.Argument(help="Recipes by name or file; a * matches names.")],
    out: Annotated[Path, typer.Option("--out", help="JSON file; tables go beside it.")],
    seeds: Annotated[str, typer.Option(help="Seeds, separated by commas.")] = "0",
    together: Together = 1,
    device: Device = None,
    threads: Threads = None,
    store: StoreAt = None,
    data_root: Root = None,
    set_: Changes = None,
    quiet: Quiet = False,
) -> None:
    """Run recipes with several seeds (what is stored is not run again) and write tables.

    The numbers are JSON; beside them go Markdown, CSV and LaTeX.
    """
    changes = recipes.parse_changes(set_ or [])
    wanted = [recipes.load(each, changes) for name in names for each in recipes.match(name)]
    load = cache(data.load)  # the runs of one data set share it
    place = command_place(device, store, terminal.show(quiet=quiet), threads)

    def open_run(recipe: recipes.Recipe) -> stages.Run:
        return workflow.open_recipe(recipe, place, root=data_root, load=load)

    results = benching.bench(wanted, _numbers(seeds), open_run, together=together)
    benching.save(results, out)
    table = Table(*benching.HEADER)
    for row in results["results"]:
        table.add_row(*benching.table_row(row))
    terminal.out.print(table)
    terminal.out.print(benching.spent(results), markup=False)
    header, rows = benching.pivot(results)
    if len(header) > 2:
        table = Table(*header, title="ours (published)")
        for cells in rows:
            table.add_row(*cells)
        terminal.out.print(table)


def _numbers(text: str) -> list[int]:
    try:
        return list(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise RecipeError(
            f"--seeds {text}: give whole numbers separated by commas, as in 55,66."
        ) from None
