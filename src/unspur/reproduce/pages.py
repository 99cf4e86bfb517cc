"""Write the page of an item: tables, figures, a list of missing runs, and hardware and versions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..methods import own_stages, plans
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
from .run_identity import erm_identity, identity

LEGEND = (
    "Numbers are in per cent on the test split: mean ± sample standard deviation over *n* seeds on one draw "
    "of the data, or both values if *n* is 2. A dash (–) means not run or not applicable.",
    "*selection*: the weights are those of the last step (*last*), or of the step with the lowest loss on "
    "held-out images (*held-out*). Bias labels are not used for it.",
    "*start*: the networks start from random weights (*scratch*) or from a file of weights.",
)
PUBLISHED = (
    "*published*: the paper's number for the column before it, a mean of four seeds. Its networks start "
    "from ImageNet weights, except on CMNIST."
)
METHOD_SOURCES = "`unspur methods` lists the methods and the papers that they come from."
COUNTED = "In brackets: *n*."
ORACLE = (
    "*oracle*: the accuracy of the step that is best on the test split itself. Nobody could select this "
    "step in practice; it is given for comparison only."
)


def write(name: str, item: Item, results: Results, options: ReproduceOptions) -> Path:
    """Write the page of an item and its figures."""
    page = item.draw(results)
    runs = {id(each.run): each for result in results.values() for each in result.recorded}
    ending = [*item.appendix(options.results), *_unusable(results.values())]
    ending.append(_missing(results.values()))
    if runs:
        where = Path(os.path.relpath(options.results, options.pages)).as_posix()
        ending.append(_provenance(list(runs.values()), where))
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


# -- text and cells of tables -------------------------------------------------------------------------


def legend(*entries: str) -> str:
    """Return a list that explains the tables of all items; `entries` are those of this item."""
    return "\n".join(f"- {entry}" for entry in (*LEGEND, *entries))


def table(header: list[str], rows: Iterable[list[str]]) -> str:
    """Format a table in Markdown."""
    return "\n".join(markdown_table(header, list(rows)))


def number(value: float | None, digits: int = 1) -> str:
    """Format a published number, or a dash."""
    return DASH if value is None else published.rounded(value, digits)


def selection(*results: Result) -> str:
    """Say how the training step was selected: from the runs if there are any, otherwise from the recipes."""
    rules = {run["selection"]["rule"] for result in results for run in result.runs}
    if not rules:
        rules = {_selection_rule(result.cell.recipe) for result in results}
    names = {"last": "last", "heldout": "held-out"}
    return " or ".join(names[rule] for rule in sorted(rules, reverse=True))


def _selection_rule(settings: Recipe) -> str:
    stages = plans()[settings.plan]
    selects = "mine" in stages and (stages[-1] == "finetune" or stages[-1] in own_stages())
    return settings.select.rule if selects else "last"


def start(*results: Result) -> str:
    """Say which weights the networks start from."""
    return " or ".join(sorted({_start(result.cell.recipe) for result in results}))


def _start(settings: Recipe) -> str:
    if settings.model.init:
        return Path(settings.model.init).name
    return "ImageNet" if settings.start.pretrained else "scratch"


FACTS = ["n", "selection", "start"]


def facts(result: Result) -> list[str]:
    """Return the cells of a row below the headers in FACTS."""
    return [str(result.n), selection(result), start(result)]


def cut(result: Result, of: str = "overall") -> str:
    """Format the share of weights that are cut, in per cent."""
    density = result.mean("density", of)
    return DASH if density is None else f"{100 * (1 - density):.1f}"


def gain(result: Result, base: Result, *path: str) -> list[float]:
    """Return the difference of two results for each seed that both have in the same precision.

    If the base is ERM and the runs contain the same training, their own ordinary models are the base.
    """
    ours = {key: value for key, value in result.by_run(*path).items() if key in _shown(result)}
    theirs = base.by_run(*path)
    if erm_identity(result.cell.recipe.model_dump(mode="json")) == identity(base.cell.recipe):
        theirs |= result.by_run("ordinary", *path[1:])
    return [ours[key] - theirs[key] for key in ours if key in theirs]


def _shown(result: Result) -> set[tuple[int, str]]:
    """Return seed and precision of the runs that tables show."""
    return {(each.run["seed"], each.precision) for each in result.recorded}


def figure(file: str, words: str) -> str:
    """Format a figure in Markdown; `words` is its alternative text."""
    return f"![{words}]({file})"


def metric_name(metric: str) -> str:
    """Return the name of a metric for the reader."""
    return published.METRIC_TITLES[metric]


# -- the end of a page --------------------------------------------------------------------------------


def _unusable(results: Iterable[Result]) -> list[str]:
    """List the runs whose result is the ordinary model because the suspects were not usable."""
    lines = []
    for result in results:
        count = sum(1 for run in result.runs if _ended_early(run))
        if count:
            lines.append(f"- {count} of {result.n} runs of `{result.cell.recipe.name}`")
    words = (
        "In these runs the suspects were too few, too many or whole classes, so the result is the ordinary "
        "model:"
    )
    return ["\n".join([words, "", *dict.fromkeys(lines)])] if lines else []


def _ended_early(run: Run) -> Any:
    mined = run["mining"]
    return mined and run["ordinary"] and mined["verdict"] not in ("usable", "noise")


def _missing(results: Iterable[Result]) -> str:
    """List the missing runs by their seeds."""
    left: dict[tuple[int, ...], dict[str, None]] = {}
    for result in results:
        if result.missing:
            left.setdefault(result.missing, {})[result.cell.recipe.name] = None
    if not left:
        return "All runs that this page needs have been made."
    lines = [
        f"- seed{'s' if len(seeds) > 1 else ''} {_joined(seeds)}: "
        + ", ".join(f"`{name}`" for name in names)
        for seeds, names in sorted(left.items(), key=lambda each: -len(each[0]))
    ]
    return "\n".join(["Runs that have not been made yet:", "", *lines])


def _provenance(recorded: list[RecordedRun], records: str) -> str:
    """Format hardware, versions, dates, seeds and times in a line; `records` is a link to the records."""
    runs = [each.run for each in recorded]
    seconds = sum(run["run"]["seconds"] for run in runs) / len(runs)
    items = sorted({each.item for each in recorded}, key=lambda item: f"{item}.")
    return (
        f"{_hardware(runs)}; {_versions(runs)}; {_frost(runs)}{_joined({each.date for each in recorded})}; "
        f"seeds {_joined({run['seed'] for run in runs})}; "
        f"precision {_joined({each.precision for each in recorded})}; "
        f"{len(runs)} runs of {seconds:.0f} s on average. "
        f"The numbers are in {', '.join(f'`{item}`' for item in items)} of [the records]({records})."
    )


def _hardware(runs: list[Run]) -> str:
    abouts = [run["run"] for run in runs]
    return _joined(
        {
            about["with"]["gpu"] if about["device"] == "cuda" else f"CPU ({about['with']['cpu']})"
            for about in abouts
        }
    )


def _frost(runs: list[Run]) -> str:
    """Say how the frost of CIFAR10-C was made, one of its ten corruptions; name the runs of each kind."""
    names: dict[str, set[str]] = {}
    for run in runs:
        if run["run"]["data"]["name"].startswith("cifar10c"):
            names.setdefault(_frost_kind(run["run"]["data"]), set()).add(
                f"`{run['run']['recipe']}`"
            )
    if not names:
        return ""
    usual = max(names, key=lambda kind: len(names[kind]))
    others = [f"{kind} in {_joined(names[kind])}" for kind in sorted(names) if kind != usual]
    return f"frost of CIFAR10-C: {', '.join([usual, *others])}; "


def _frost_kind(data: Mapping[str, Any]) -> str:
    """Return the kind of frost; records without the digest of the training images do not say it."""
    if data.get("generated"):
        return "procedural"
    return "photographs" if "train" in data else "not recorded"


def _versions(runs: list[Run]) -> str:
    return ", ".join(
        f"{name} {_joined({run['run']['with'][name] for run in runs})}"
        for name in ("unspur", "torch", "python")
    )


def _joined(values: Iterable[object]) -> str:
    return ", ".join(map(str, sorted(values, key=str)))
