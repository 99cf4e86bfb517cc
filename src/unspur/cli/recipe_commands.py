"""`unspur recipes`: list the built-in recipes, or print one with the origin of each value."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

from ..recipes.overview import find_names, group_recipes
from ..report.console import out as output
from .help_text import PlainCommand, PlainGroup
from .options import Changes

if TYPE_CHECKING:
    from ..recipes.settings import Recipe

RESULTS = (Path("results"),)  # default folders of results

app = typer.Typer(
    cls=PlainGroup, add_completion=False, invoke_without_command=True, no_args_is_help=False
)


@app.callback()
def recipes(context: typer.Context) -> None:
    """List the built-in recipes, which are complete settings of experiments, or show one.

    Without a command: an overview by data set on a terminal, otherwise all names, one a line.
    """
    if context.invoked_subcommand is not None:
        return
    if output.is_terminal:
        _print_overview()
    else:
        recipes_list()


@app.command("list", cls=PlainCommand)
def recipes_list(
    pattern: Annotated[
        str,
        typer.Argument(
            metavar="PATTERN", help="Part of a name, or a pattern such as 'cmnist/*-dcwp'."
        ),
    ] = "",
) -> None:
    """Print the names of recipes, one a line."""
    print("\n".join(find_names(pattern)))


@app.command(cls=PlainCommand)
def show(
    name: Annotated[
        str,
        typer.Argument(metavar="RECIPE", help="Name (`unspur recipes` lists them) or TOML file."),
    ],
    set_: Changes = None,
    results: Annotated[
        Path | None, typer.Option(help="Folder of records, from which our results are shown.")
    ] = None,
) -> None:
    """Print a complete recipe as TOML, with the origin of each value."""
    from ..recipes import loading, parse_changes
    from ..recipes.display import show as show_recipe

    texts = set_ or []
    loaded = loading.load_with_origins(name, parse_changes(texts))
    folder = results or next((each for each in RESULTS if each.is_dir()), None)
    ours = _results(loaded.recipe, folder) if folder else ""
    print(show_recipe(name, loaded, changes=texts, ours=ours), end="")


def _print_overview() -> None:
    """Print one line for each data set and set of ratios, and how a name is composed."""
    table = Table(Column("data set", no_wrap=True), Column("ratio", no_wrap=True), "method")
    previous = ""
    for group in group_recipes():
        shown = "" if group.data == previous else group.data
        table.add_row(shown, ", ".join(group.ratios) or "–", ", ".join(group.methods) or "–")
        previous = group.data
    output.print(table)
    for line in (
        "A name is DATA/RATIO-METHOD, for example cmnist/1pct-dcwp. A part shown as – is left out.",
        "  full names:  unspur recipes list, or unspur recipes list 'cmnist/*-dcwp'",
        "  settings:    unspur recipes show cmnist/1pct-dcwp",
        "  run one:     unspur run cmnist/1pct-dcwp",
    ):
        output.print(line, markup=False, highlight=False, soft_wrap=True)


def _results(recipe: Recipe, folder: Path) -> str:
    """Return a sentence with our results of a recipe with the paper's seeds; '' if there are none."""
    from ..recipes.published import METRICS
    from ..reproduce.item import SEEDS
    from ..reproduce.records import Records
    from ..runs.bench import summarise
    from ..runs.tables import percent

    records = Records(folder)
    known = [records.find(recipe, seed) for seed in SEEDS.get(recipe.data.name, ())]
    runs = [each.run for each in known if each is not None]
    if not runs:
        return ""
    summary = summarise(runs, metric=METRICS.get(recipe.data.name, "unbiased"))
    erm = "ordinary" in summary and recipe.plan != "erm"
    beside = f" (ERM: {percent(summary['ordinary'])})" if erm else ""
    seeds = f"{len(runs)} seed{'s' * (len(runs) > 1)}"
    minutes = f"{summary['seconds']['mean'] / 60:.1f} minutes per run on {_hardware(runs[0])}"
    return f"Ours: {percent(summary['debiased'])}{beside}; {seeds}, {minutes}."


def _hardware(run: dict[str, dict[str, dict[str, str]]]) -> str:
    device = run["run"]["with"]["gpu"]
    return "a CPU" if device == "none" else f"{device}, shared with other runs"
