"""Write the page of an item: tables and figures, what was not run, what the numbers were made with."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..methods import plans
from ..recipes import Recipe, published
from ..runs.tables import markdown_table
from ..store import locked, make_folder, write_bytes
from .item import (
    DASH,
    Item,
    Page,
    RecordedRun,
    ReproduceOptions,
    Result,
    Results,
    Run,
)
from .quick import WORDS

READING = (
    "Per cent on the test split, mean ± standard deviation over n seeds; – was not run, or does not apply. "
    "*iterate*: the last one, or the one chosen on held-out suspects, without labels of the bias. "
    "*start*: from scratch, or from a file of weights. Published: means of four seeds, "
    "from ImageNet weights on all but CMNIST."
)
ORACLE = "*oracle*: the best iterate on the test split itself, which nobody can choose; for comparison only."


def write(name: str, item: Item, results: Results, options: ReproduceOptions) -> Path:
    """Write the page of an item and its figures."""
    page = item.draw(results)
    runs = {id(each.run): each for result in results.values() for each in result.recorded}
    ending = [*item.appendix(options.results), *_unusable(results.values())]
    ending.append(_missing(results.values()))
    if runs:
        where = Path(os.path.relpath(options.results, options.pages)).as_posix()
        ending.append(_made_with(list(runs.values()), where))
    return write_page(name, item.title, Page([*page.parts, *ending], page.pictures), options)


def write_page(name: str, title: str, page: Page, options: ReproduceOptions) -> Path:
    """Write a page with its title, its figures, and the command that makes it."""
    first = [f"> {WORDS}"] if options.quick else []
    again = f"`unspur reproduce {name}{' --quick' if options.quick else ''}` makes this page."
    text = "\n\n".join([*first, f"# {title}", *page.parts, again]) + "\n"
    make_folder(options.pages)
    with locked(path := options.pages / f"{name}.md"):  # another command may be writing it
        for file, picture in page.pictures.items():
            write_bytes(options.pages / file, picture.encode())
        write_bytes(path, text.encode())
    return path


# -- pieces of tables ---------------------------------------------------------------------------------


def table(header: list[str], rows: Iterable[list[str]]) -> str:
    """Format a table in Markdown."""
    return "\n".join(markdown_table(header, list(rows)))


def number(value: float | None, digits: int = 1) -> str:
    """Format a published number, or a dash."""
    return DASH if value is None else published.rounded(value, digits)


def iterate(*results: Result) -> str:
    """Say which iterate the results are of: by the runs if there are any, otherwise by the recipes."""
    rules = {run["selection"]["rule"] for result in results for run in result.runs}
    if not rules:
        rules = {_asked(result.cell.recipe) for result in results}
    names = {"last": "last", "heldout": "held-out"}
    return " or ".join(names[rule] for rule in sorted(rules, reverse=True))


def _asked(settings: Recipe) -> str:
    chooses = {"mine", "finetune"} <= set(plans()[settings.plan])
    return settings.select.rule if chooses else "last"


def start(*results: Result) -> str:
    """Say what the networks start from."""
    files = {result.cell.recipe.model.init for result in results}
    return " or ".join(sorted(Path(file).name or "scratch" for file in files))


FACTS = ["n", "iterate", "start"]


def facts(result: Result) -> list[str]:
    """Return the cells of a row under the header FACTS."""
    return [str(result.n), iterate(result), start(result)]


def cut(result: Result, of: str = "overall") -> str:
    """Format the share of the weights that is cut, in per cent."""
    density = result.mean("density", of)
    return DASH if density is None else f"{100 * (1 - density):.1f}"


def gain(result: Result, base: Result, *path: str) -> list[float]:
    """Return how much a result is above another, seed by seed."""
    ours, theirs = result.by_seed(*path), base.by_seed(*path)
    return [ours[seed] - theirs[seed] for seed in ours if seed in theirs]


def figure(file: str, words: str) -> str:
    """Format a figure with its alternative text."""
    return f"![{words}]({file})"


def metric_name(metric: str) -> str:
    """Return the name of a metric for the reader."""
    return published.SPOKEN[metric]


# -- the end of a page --------------------------------------------------------------------------------


def _unusable(results: Iterable[Result]) -> list[str]:
    """List the runs that ended with the ordinary model because their suspects were unusable."""
    lines = []
    for result in results:
        count = sum(1 for run in result.runs if _ended_early(run))
        if count:
            lines.append(f"- {count} of {result.n} runs of `{result.cell.recipe.name}`")
    words = (
        "The suspects were no use (too few or too many), so the ordinary model is the result, in:"
    )
    return ["\n".join([words, "", *dict.fromkeys(lines)])] if lines else []


def _ended_early(run: Run) -> Any:
    mined = run["mining"]
    return mined and run["ordinary"] and mined["verdict"] not in ("usable", "noise")


def _missing(results: Iterable[Result]) -> str:
    """List what was not run, by seeds."""
    left: dict[tuple[int, ...], dict[str, None]] = {}
    for result in results:
        if result.missing:
            left.setdefault(result.missing, {})[result.cell.recipe.name] = None
    if not left:
        return "Nothing is missing."
    lines = [
        f"- seed{'s' if len(seeds) > 1 else ''} {_listed(seeds)}: "
        + ", ".join(f"`{name}`" for name in names)
        for seeds, names in sorted(left.items(), key=lambda each: -len(each[0]))
    ]
    return "\n".join(["Not run:", "", *lines])


def _made_with(recorded: list[RecordedRun], records: str) -> str:
    """Format hardware, versions, dates, seeds and times in a line; `records` leads to their folder."""
    runs = [each.run for each in recorded]
    seconds = sum(run["run"]["seconds"] for run in runs) / len(runs)
    items = sorted({each.item for each in recorded}, key=lambda item: f"{item}.")
    return (
        f"{_hardware(runs)}; {_versions(runs)}; {_listed({each.date for each in recorded})}; "
        f"seeds {_listed({run['seed'] for run in runs})}; "
        f"precision {_listed({each.precision for each in recorded})}; "
        f"runs: {len(runs)}, {seconds:.0f} s each on average. "
        f"Numbers: {', '.join(f'`{item}`' for item in items)} in [the records]({records})."
    )


def _hardware(runs: list[Run]) -> str:
    made = [run["run"] for run in runs]
    return _listed(
        {
            about["with"]["gpu"] if about["device"] == "cuda" else f"CPU ({about['with']['cpu']})"
            for about in made
        }
    )


def _versions(runs: list[Run]) -> str:
    return ", ".join(
        f"{name} {_listed({run['run']['with'][name] for run in runs})}"
        for name in ("unspur", "torch", "python")
    )


def _listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, sorted(values, key=str)))
