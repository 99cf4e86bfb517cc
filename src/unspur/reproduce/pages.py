"""The page of an item: tables and figures, what was not run, and what the numbers were made with."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..methods import plans
from ..recipes import published
from ..recipes.loading import Recipe
from ..runs.tables import markdown_table
from ..store import locked, make_folder, write_bytes
from .item import DASH, Desk, Item, Known, Page, Result, Results, Run, Sheet
from .quick import WORDS

READING = (
    "Per cent on the test split, mean ± standard deviation over n seeds; – was not run, or does not apply. "
    "*iterate*: the last one, or the one chosen on held-out suspects, without labels of the bias. "
    "*start*: from scratch, or from a file of weights. Published: means of four seeds, "
    "from ImageNet weights on all but CMNIST."
)
ORACLE = "*oracle*: the best iterate on the test split itself, which nobody can choose; for comparison only."


def write(name: str, item: Item, results: Results, desk: Desk) -> Path:
    """Write the page of an item and its figures."""
    page = item.draw(results)
    known = {id(each.run): each for result in results.values() for each in result.known}
    ending = [*item.beside(desk.out), *_unusable(results.values()), _missing(results.values())]
    ending += [_made_with(list(known.values()))] if known else []
    return _write(name, item.title, Page([*page.parts, *ending], page.pictures), desk)


def write_sheet(name: str, sheet: Sheet, desk: Desk) -> Path:
    """Write the page of pictures that need no runs."""
    make_folder(desk.out)
    return _write(name, sheet.title, sheet.draw(desk), desk)


def _write(name: str, title: str, page: Page, desk: Desk) -> Path:
    first = [f"> {WORDS}"] if desk.quick else []
    again = f"`unspur reproduce {name}{' --quick' if desk.quick else ''}` makes this page."
    text = "\n\n".join([*first, f"# {title}", *page.parts, again]) + "\n"
    make_folder(desk.out)
    with locked(path := desk.out / f"{name}.md"):  # another command may be drawing it
        for file, picture in page.pictures.items():
            write_bytes(desk.out / file, picture.encode())
        write_bytes(path, text.encode())
    return path


# -- pieces of tables ---------------------------------------------------------------------------------


def table(header: list[str], rows: Iterable[list[str]]) -> str:
    return "\n".join(markdown_table(header, list(rows)))


def number(value: float | None, digits: int = 1) -> str:
    """A published number, or a dash."""
    return DASH if value is None else published.rounded(value, digits)


def iterate(*results: Result) -> str:
    """Which iterate the results are of: what was done where there are runs, otherwise what is asked for."""
    rules = {run["selection"]["rule"] for result in results for run in result.runs}
    if not rules:
        rules = {_asked(result.cell.recipe) for result in results}
    spoken = {"last": "last", "heldout": "held-out"}
    return " or ".join(spoken[rule] for rule in sorted(rules, reverse=True))


def _asked(settings: Recipe) -> str:
    chooses = {"mine", "finetune"} <= set(plans()[settings.plan])
    return settings.select.rule if chooses else "last"


def start(*results: Result) -> str:
    """What the networks start from."""
    files = {result.cell.recipe.model.init for result in results}
    return " or ".join(sorted(Path(file).name or "scratch" for file in files))


FACTS = ["n", "iterate", "start"]


def facts(result: Result) -> list[str]:
    """The cells that say what a row's numbers are, under the header FACTS."""
    return [str(result.n), iterate(result), start(result)]


def cut(result: Result, of: str = "overall") -> str:
    """The share of the weights that is gone, in per cent."""
    kept = result.mean("density", of)
    return DASH if kept is None else f"{100 * (1 - kept):.1f}"


def gain(result: Result, base: Result, *path: str) -> list[float]:
    """How much a result is above another, seed by seed."""
    ours, theirs = result.by_seed(*path), base.by_seed(*path)
    return [ours[seed] - theirs[seed] for seed in ours if seed in theirs]


def figure(file: str, words: str) -> str:
    return f"![{words}]({file})"


def spoken(metric: str) -> str:
    return published.SPOKEN[metric]


# -- the end of a page --------------------------------------------------------------------------------


def _unusable(results: Iterable[Result]) -> list[str]:
    """Runs that ended with the ordinary model, as their suspects were no use."""
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
    """What was not run, by seeds."""
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


def _made_with(known: list[Known]) -> str:
    """Hardware, versions, dates, seeds and times, in a line."""
    runs = [each.run for each in known]
    made = [run["run"]["with"] for run in runs]
    hardware = {
        about["gpu"] if run["run"]["device"] == "cuda" else f"CPU ({about['cpu']})"
        for run, about in zip(runs, made, strict=True)
    }
    versions = [
        f"{name} {_listed({about[name] for about in made})}"
        for name in ("unspur", "torch", "python")
    ]
    seconds = sum(run["run"]["seconds"] for run in runs) / len(runs)
    seeds = _listed({run["seed"] for run in runs})
    files = sorted({each.file for each in known})
    return (
        f"{_listed(hardware)}; {', '.join(versions)}; {_listed({each.made for each in known})}; "
        f"seeds {seeds}; precision {_listed({each.precision for each in known})}; "
        f"runs: {len(runs)}, {seconds:.0f} s each on average. "
        f"Numbers: {', '.join(f'[{file}]({file})' for file in files)}."
    )


def _listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, sorted(values, key=str)))
