"""Write the recipe files below src/unspur/recipes, complete and with their numbers in the header.

    python scripts/make_recipes.py

Settings live in recipe_settings.py, remarks in recipe_notes.py; the files are what users read and copy.
"""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import recipe_notes as about
import recipe_settings as settings

from unspur import recipe
from unspur.published import METRICS, SPOKEN, number
from unspur.reproduce.ledger import identity
from unspur.tables import percent


def every() -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Every recipe as its tables, with what its header says."""
    for ratio in settings.RATIOS:
        for kind in settings.CMNIST:
            yield settings.cmnist(ratio, kind), about.notes("cmnist", kind)
        for kind in settings.CIFAR10C:
            yield settings.cifar10c(ratio, kind), about.notes("cifar10c", kind)
    yield settings.cifar10c("5pct", "grasp"), about.notes("cifar10c", "grasp")
    for kind in settings.CIFAR10:
        yield settings.cifar10(kind), about.notes("cifar10", kind)
    for data in settings.UNBIASED:
        yield settings.debias(data), about.NOTES["debias"]
    for data, ratio in settings.FACES_SETS:
        for kind in settings.FACES:
            yield settings.faces(data, ratio, kind), about.notes(f"{data}/{ratio}", kind)
    for kind in settings.ORIGINALS:
        yield settings.original(kind), about.notes("cmnist", kind)
    for data in settings.SLIM_DATA:
        for kind in settings.SLIM:
            yield settings.slim(data, kind), about.notes(data, kind)
    for index in settings.ABLATION:
        for optimiser in ("sgd", "adam"):
            yield settings.ablation(index, optimiser), about.ablation_notes(index, optimiser)


def header(made: recipe.Recipe, notes: list[str], results: list[dict[str, Any]]) -> str:
    """What a reader should know first: what it is, how to run it, the published number and ours."""
    first, *rest = notes
    lines = [first, f"    unspur run {made.name} --seed {settings.SEEDS[made.data.name]}"]
    lines += [_published(made), *rest]
    lines += [_ours(row, each) for each in results for row in each["results"] if _is(row, made)][:1]
    wrapped = [
        part
        for line in lines
        for part in textwrap.wrap(line, 108, subsequent_indent="  ", drop_whitespace=True) or [line]
    ]
    return "".join(f"# {line}".rstrip() + "\n" for line in wrapped) + "\n"


def _published(made: recipe.Recipe) -> str:
    tables = made.model_dump(mode="json")
    own, erm = number(tables), number(tables, "erm")
    if own is None:
        return "Published: no number of this method on this data."
    title = about.title(made.name)
    metric = SPOKEN[METRICS.get(made.data.name, "unbiased")].partition(" (")[0].lower()
    beside = f", ERM {erm}" if title != "ERM" and "ablation" not in made.name else ""
    return f"Published: {title} {own}{beside} ({metric}, per cent)."


def _is(row: dict[str, Any], made: recipe.Recipe) -> bool:
    return identity(recipe.parse(row["recipe"], where=row["recipe"]["name"])) == identity(made)


def _ours(row: dict[str, Any], results: dict[str, Any]) -> str:
    summary = row["summary"]
    beside = f", ERM {percent(summary['ordinary'])}" if "ordinary" in summary else ""
    device = results["with"]["gpu"]
    device = "a CPU" if device == "none" else device
    seeds = f"{len(row['runs'])} seed{'s' * (len(row['runs']) > 1)}"
    shared = ", shared with other runs" if results.get("together", 2) > 1 else ""
    return (
        f"Ours: {percent(summary['debiased'])}{beside} ({seeds}; "
        f"{summary['seconds']['mean'] / 60:.1f} minutes a run on {device}{shared})."
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    known = sorted(Path("docs/results").rglob("*.json"), key=lambda path: (len(path.parts), path))
    parser.add_argument("--results", type=Path, nargs="*", default=known)
    parser.add_argument("--out", type=Path, default=Path("src/unspur/recipes"))
    args = parser.parse_args()
    results = [json.loads(path.read_text()) for path in args.results]
    results = [each for each in results if "results" in each and "with" in each]
    demo = recipe.parse(settings.DEMO, where="demo")
    (args.out / "demo.toml").write_text(settings.DEMO_HEADER + recipe.dump(demo))
    for table, notes in every():
        made = recipe.parse(table, where=table["name"])
        path = args.out / f"{made.name}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(header(made, notes, results) + recipe.dump(made))


if __name__ == "__main__":
    main()
