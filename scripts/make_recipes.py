"""Write the recipe files below src/unspur/recipes, complete and with their numbers in the header.

    python scripts/make_recipes.py

Settings live in recipe_settings.py, remarks in recipe_notes.py; the files are what users read and copy.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import recipe_notes as about
import recipe_settings as settings

from unspur import recipes
from unspur.recipes.published import METRICS, SPOKEN, number
from unspur.reproduce.item import SEEDS
from unspur.reproduce.record_search import Ledger
from unspur.runs.bench import summarise
from unspur.runs.tables import percent


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


def header(made: recipes.Recipe, notes: list[str], ledger: Ledger) -> str:
    """What a reader should know first: what it is, how to run it, the published number and ours."""
    first, *rest = notes
    lines = [first, f"    unspur run {made.name} --seed {settings.SEEDS[made.data.name]}"]
    lines += [_published(made), *rest, *_ours(made, ledger)]
    wrapped = [
        part
        for line in lines
        for part in textwrap.wrap(line, 108, subsequent_indent="  ", drop_whitespace=True) or [line]
    ]
    return "".join(f"# {line}".rstrip() + "\n" for line in wrapped) + "\n"


def _published(made: recipes.Recipe) -> str:
    tables = made.model_dump(mode="json")
    own, erm = number(tables), number(tables, "erm")
    if own is None:
        return "Published: no number of this method on this data."
    title = about.title(made.name)
    metric = SPOKEN[METRICS.get(made.data.name, "unbiased")].partition(" (")[0].lower()
    beside = f", ERM {erm}" if title != "ERM" and "ablation" not in made.name else ""
    return f"Published: {title} {own}{beside} ({metric}, per cent)."


def _ours(made: recipes.Recipe, ledger: Ledger) -> list[str]:
    """What is on record of the recipe, with the paper's seeds."""
    known = [ledger.find(made, seed) for seed in SEEDS[made.data.name]]
    runs = [each.run for each in known if each is not None]
    if not runs:
        return []
    summary = summarise(runs, metric=METRICS.get(made.data.name, "unbiased"))
    erm = "ordinary" in summary and made.plan != "erm"
    beside = f", ERM {percent(summary['ordinary'])}" if erm else ""
    device = runs[0]["run"]["with"]["gpu"]
    where = "a CPU" if device == "none" else f"{device}, shared with other runs"
    seeds = f"{len(runs)} seed{'s' * (len(runs) > 1)}"
    minutes = f"{summary['seconds']['mean'] / 60:.1f} minutes a run on {where}"
    return [f"Ours: {percent(summary['debiased'])}{beside} ({seeds}; {minutes})."]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=Path("docs/results"))
    parser.add_argument("--out", type=Path, default=Path("src/unspur/recipes"))
    args = parser.parse_args()
    ledger = Ledger(args.results)
    demo = recipes.parse(settings.DEMO, where="demo")
    (args.out / "demo.toml").write_text(settings.DEMO_HEADER + recipes.dump(demo))
    for table, notes in every():
        made = recipes.parse(table, where=table["name"])
        path = args.out / f"{made.name}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(header(made, notes, ledger) + recipes.dump(made))


if __name__ == "__main__":
    main()
