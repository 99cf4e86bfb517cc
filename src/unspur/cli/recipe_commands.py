"""`unspur recipes`: list the built-in recipes, or print one with the origin of each value."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..recipes.catalogue_files import catalogue
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
    """List the built-in recipes, or show one."""
    if context.invoked_subcommand is None:
        print("\n".join(catalogue().recipes))


@app.command(cls=PlainCommand)
def show(
    name: Annotated[
        str, typer.Argument(help="Name of a recipe (`unspur recipes` lists them), or a file.")
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
