"""`unspur bench`: run many recipes and seeds, and write one table."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from .. import recipes
from ..errors import RecipeError, UnspurError
from ..report import terminal
from ..report.pool_table import show_pool
from ..runs import bench as benching
from ..runs.run_records import RunRecords
from ..store.addresses import is_address
from ..workflow import FinishedRuns, ListPart, ManyRuns, Site, run_here, run_on_cluster
from .cluster_options import open_pool
from .help_text import ClusterCommand
from .options import (
    Changes,
    CpusPerGroup,
    Device,
    GpusPerGroup,
    Quiet,
    Ray,
    Root,
    StoreAt,
    Threads,
    Together,
)

COMMAND = ClusterCommand


def bench(
    names: Annotated[
        list[str],
        typer.Argument(metavar="RECIPE", help="Names, files, or patterns such as 'cmnist/*-dcwp'."),
    ],
    out: Annotated[
        str,
        typer.Option("--out", help="JSON file, or its address; the tables are written next to it."),
    ],
    seeds: Annotated[str, typer.Option(help="Seeds, separated by commas.")] = "0",
    together: Together = 1,
    part: Annotated[
        str,
        typer.Option(
            help="Run one part of all runs, such as 1/8; the last part writes the tables."
        ),
    ] = "1/1",
    ray: Ray = "",
    cpus_per_group: CpusPerGroup = 1.0,
    gpus_per_group: GpusPerGroup = None,
    device: Device = None,
    threads: Threads = None,
    store: StoreAt = None,
    data_root: Root = None,
    set_: Changes = None,
    quiet: Quiet = False,
) -> None:
    """Run recipes with several seeds, and write tables; stored stages are reused.

    The numbers are written as JSON, the tables as Markdown, CSV and LaTeX.
    """
    changes = recipes.parse_changes(set_ or [])
    loaded = [recipes.load(each, changes) for name in names for each in recipes.match(name)]
    many, chosen = ManyRuns(loaded, _numbers(seeds), together), ListPart.parse(part)
    where = out if is_address(out) else Path(out)
    benching.refuse_other_files(where)
    site, records, began = (
        Site(device, store, data_root, threads),
        RunRecords(where),
        time.perf_counter(),
    )
    if ray:
        with show_pool(quiet=quiet) as show:
            pool = open_pool(ray, device, cpus_per_group, gpus_per_group, show)
            finished = run_on_cluster(many, site, records, chosen, pool)
    else:
        open_run = site.opener(terminal.show(quiet=quiet))
        finished = run_here(many, open_run, records, chosen)
    _end(many, finished, chosen, where, time.perf_counter() - began)


def _end(
    many: ManyRuns, finished: FinishedRuns, part: ListPart, out: Path | str, seconds: float
) -> None:
    """Write and print the tables if every run is finished; otherwise print how many are missing."""
    if finished.failures:
        done = f"{len(finished.runs)} of {len(many.all_runs)} runs are finished and kept"
        raise UnspurError(
            f"{len(finished.failures)} runs failed; {done}. Run the same command again for the others.\n"
            + "\n".join(finished.failures)
        )
    if len(finished.runs) < len(many.all_runs):
        terminal.out.print(
            f"Part {part.number} of {part.count} is done: {len(finished.runs)} of {len(many.all_runs)} runs "
            "are finished. The last part to finish writes the tables; the same command without --part does "
            "so too.",
            markup=False,
        )
        return
    runs = [finished.runs[place] for place in range(len(many.all_runs))]
    results = benching.combine_runs(
        many.recipes, many.seeds, runs, together=many.together, seconds=seconds
    )
    benching.save(results, out)
    _print_tables(results)


def _print_tables(results: dict[str, Any]) -> None:
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
            f"--seeds {text!r} is not a list of whole numbers. Separate them by commas, as in 55,66."
        ) from None
