"""The parts of an item (a table or figure): the runs it needs, its recorded runs, its page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import recipes
from ..cluster import Pool
from ..data import Splits
from ..recipes import Recipe
from ..runs.tables import percent
from ..stages.context import Context
from ..training.metrics import mean_sd

# The seeds of the paper, in the order in which they are run.
SEEDS = {
    "cmnist": (55, 66, 77, 88),
    "cifar10c": (11, 22, 33, 44),
    "cifar10": (11, 22, 33, 44),
    "mnist": (55, 66, 77, 88),
    "bffhq": (11, 22, 33, 44),
    "celeba": (1006, 1007, 1008, 1009),
}
DASH = "–"
# Of new runs, and preferred among recorded ones: a difference of two runs needs the same precision in both.
PRECISION = "precision=bf16"
# Changes that are not part of a recipe's name.
UNNAMED = ("finetune.iterates=", "lff.iterates=", "disent.iterates=", "precision=")

Run = dict[str, Any]
Key = tuple[str, ...]


@dataclass(frozen=True)
class ItemCell:
    """A recipe and the seeds to run it with."""

    recipe: Recipe
    seeds: tuple[int, ...]


def cell(name: str, *changes: str, seeds: int = 4) -> ItemCell:
    """Return a built-in recipe with changes, and the first seeds of its data set.

    The changes become part of the recipe's name.
    """
    settings = recipes.load(name, recipes.parse_changes([PRECISION, *changes]))
    named_changes = [change for change in changes if not change.startswith(UNNAMED)]
    named = settings.model_copy(update={"name": " ".join([name, *named_changes])})
    return ItemCell(named, SEEDS[settings.data.name][:seeds])


@dataclass(frozen=True)
class RecordedRun:
    """A recorded run: its numbers, its date, the item it was run for, and its precision."""

    run: Run
    date: str
    item: str
    precision: str = ""


@dataclass(frozen=True)
class Result:
    """The recorded runs of a cell, and those of the same recipe in other precisions, to compare with."""

    cell: ItemCell
    recorded: tuple[RecordedRun, ...] = ()
    others: tuple[RecordedRun, ...] = ()

    @property
    def runs(self) -> list[Run]:
        return [each.run for each in self.recorded]

    @property
    def n(self) -> int:
        return len(self.recorded)

    @property
    def missing(self) -> tuple[int, ...]:
        """Return the seeds without a recorded run."""
        seen = {run["seed"] for run in self.runs}
        return tuple(seed for seed in self.cell.seeds if seed not in seen)

    def by_seed(self, *path: str) -> dict[int, float]:
        """Return the number at a path such as ("debiased", "unbiased") for each seed that has one."""
        found = {run["seed"]: _at(run, path) for run in self.runs}
        return {seed: value for seed, value in found.items() if value is not None}

    def by_run(self, *path: str) -> dict[tuple[int, str], float]:
        """Return the number at a path for each seed and precision; other precisions are included."""
        runs = (*self.others, *self.recorded)
        found = {(each.run["seed"], each.precision): _at(each.run, path) for each in runs}
        return {key: value for key, value in found.items() if value is not None}

    def mean(self, *path: str) -> float | None:
        """Return the mean of the numbers at a path, or None if there are none."""
        return mean_sd(list(values))[0] if (values := self.by_seed(*path).values()) else None

    def text(self, *path: str) -> str:
        """Format mean ± standard deviation in per cent."""
        return mean_sd_text(list(self.by_seed(*path).values()))

    def counted(self, *path: str) -> str:
        """Format mean ± standard deviation with the number of seeds."""
        values = self.by_seed(*path)
        return f"{self.text(*path)} ({len(values)})" if values else DASH

    def best(self, metric: str) -> list[float]:
        """Return each run's highest accuracy on the test split over its scored steps (an oracle)."""
        iterates = [run.get("extras", {}).get("iterates", {}).values() for run in self.runs]
        return [max(scores[metric] for scores in each) for each in iterates if each]


def mean_sd_text(values: list[float]) -> str:
    """Format mean ± standard deviation of shares, in per cent; of two values, format both."""
    if not values:
        return DASH
    if len(values) == 2:
        return ", ".join(percent({"mean": each, "sd": None}) for each in values)
    mean, sd = mean_sd(values)
    return percent({"mean": mean, "sd": sd})


def mean_text(values: list[float]) -> str:
    """Format the mean of shares, in per cent."""
    return percent({"mean": mean_sd(values)[0], "sd": None}) if values else DASH


def _at(run: Run, path: tuple[str, ...]) -> float | None:
    found: Any = run
    for part in path:
        found = found.get(part) if isinstance(found, Mapping) else None
    return None if found is None else float(found)


Cells = dict[Key, ItemCell]
Results = Mapping[Key, Result]


@dataclass(frozen=True)
class Page:
    """Paragraphs and tables in Markdown, and pictures (SVG) by file name."""

    parts: list[str]
    pictures: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ReproduceOptions:
    """The options of `unspur reproduce`."""

    results: Path  # folder of the records
    pages: Path  # folder of the pages and figures
    context_of: Callable[[Recipe], Context]
    load: Callable[..., Splits]  # a data set by name and ratio
    say: Callable[[str], None]
    together: int = 1
    until: float = float("inf")  # no run starts after this value of time.monotonic()
    only: str = "*"  # run only recipes whose names match this pattern
    precision: str = ""  # of new runs; empty for that of the recipe
    run: bool = True
    quick: bool = False
    pool: Pool | None = None  # workers for the runs; None to run in this process


@dataclass(frozen=True)
class Item:
    """A table or figure made from runs. The most important cells come first.

    `extras` names additional results that it needs of each run (see run_extras). `appendix` returns
    paragraphs made from other files in the folder of records.
    """

    title: str
    cells: Callable[[], Cells]
    draw: Callable[[Results], Page]
    extras: tuple[str, ...] = ()
    appendix: Callable[[Path], list[str]] = lambda folder: []


@dataclass(frozen=True)
class FigureItem:
    """A figure that needs no runs: `draw` computes its numbers, `redraw` reads them from the records."""

    title: str
    draw: Callable[[ReproduceOptions], Page]
    redraw: Callable[[ReproduceOptions], Page | None] = lambda options: None
