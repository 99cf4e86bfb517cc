"""What a table or figure of the paper is made of: runs that are wanted, runs that are known, a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import recipes
from ..data import Splits
from ..recipes.loading import Recipe
from ..runs.tables import percent
from ..stages.context import Context
from ..training.metrics import mean_sd

# The paper's seeds, in the order in which they are run.
SEEDS = {
    "cmnist": (55, 66, 77, 88),
    "cifar10c": (11, 22, 33, 44),
    "cifar10": (11, 22, 33, 44),
    "mnist": (55, 66, 77, 88),
    "bffhq": (11, 22, 33, 44),
    "celeba": (1006, 1007, 1008, 1009),
}
DASH = "–"
UNTOLD = ("finetune.iterates=", "precision=")  # changes that a recipe's name does not tell

Run = dict[str, Any]
Key = tuple[str, ...]


@dataclass(frozen=True)
class Cell:
    """A recipe and the seeds it is wanted with."""

    recipe: Recipe
    seeds: tuple[int, ...]


def cell(name: str, *changes: str, seeds: int = 4) -> Cell:
    """A built-in recipe with changes, named after both, and the first of its data's seeds."""
    settings = recipes.load(name, recipes.parse_changes(changes))
    told = [change for change in changes if not change.startswith(UNTOLD)]
    named = settings.model_copy(update={"name": " ".join([name, *told])})
    return Cell(named, SEEDS[settings.data.name][:seeds])


@dataclass(frozen=True)
class Known:
    """A run on record, the day its file was made, that file, and the run's precision."""

    run: Run
    made: str
    file: str
    precision: str = ""


@dataclass(frozen=True)
class Result:
    """What is known of a cell."""

    cell: Cell
    known: tuple[Known, ...] = ()

    @property
    def runs(self) -> list[Run]:
        return [each.run for each in self.known]

    @property
    def n(self) -> int:
        return len(self.known)

    @property
    def missing(self) -> tuple[int, ...]:
        """The seeds that were not run."""
        seen = {run["seed"] for run in self.runs}
        return tuple(seed for seed in self.cell.seeds if seed not in seen)

    def by_seed(self, *path: str) -> dict[int, float]:
        """The numbers at a place in each run, such as ("debiased", "unbiased"), where there are any."""
        found = {run["seed"]: _at(run, path) for run in self.runs}
        return {seed: value for seed, value in found.items() if value is not None}

    def mean(self, *path: str) -> float | None:
        return mean_sd(list(values))[0] if (values := self.by_seed(*path).values()) else None

    def text(self, *path: str) -> str:
        """Mean ± standard deviation in per cent."""
        return told(list(self.by_seed(*path).values()))

    def counted(self, *path: str) -> str:
        """The same with the number of seeds."""
        values = self.by_seed(*path)
        return f"{self.text(*path)} ({len(values)})" if values else DASH

    def best(self, metric: str) -> list[float]:
        """Of each run the best of the iterates kept, by the test split: an oracle's choice."""
        kept = [run["kept"]["iterates"].values() for run in self.runs]
        return [max(found[metric] for found in each) for each in kept if each]


def told(values: list[float]) -> str:
    """Mean ± standard deviation of shares, in per cent."""
    if not values:
        return DASH
    mean, sd = mean_sd(values)
    return percent({"mean": mean, "sd": sd})


def _at(run: Run, path: tuple[str, ...]) -> float | None:
    found: Any = run
    for part in path:
        found = found.get(part) if isinstance(found, Mapping) else None
    return None if found is None else float(found)


Cells = dict[Key, Cell]
Results = Mapping[Key, Result]


@dataclass(frozen=True)
class Page:
    """Paragraphs and tables in Markdown, and pictures (SVG) by file name."""

    parts: list[str]
    pictures: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Desk:
    """Where and how an item is reproduced."""

    out: Path
    context_of: Callable[[Recipe], Context]
    load: Callable[..., Splits]  # a data set by name and ratio
    say: Callable[[str], None]
    together: int = 1
    until: float = float("inf")  # by time.monotonic(): no run begins later
    only: str = "*"  # run nothing but recipes of such names
    precision: str = ""  # of what is run, if not the recipe's
    run: bool = True
    quick: bool = False


@dataclass(frozen=True)
class Item:
    """A table or figure drawn from runs, listed by importance; `keep` is what it needs of them besides.

    `beside` draws what other files in the folder of results add to the page.
    """

    title: str
    cells: Callable[[], Cells]
    draw: Callable[[Results], Page]
    keep: tuple[str, ...] = ()
    beside: Callable[[Path], list[str]] = lambda folder: []


@dataclass(frozen=True)
class Sheet:
    """A figure that needs no runs; it is made anew each time."""

    title: str
    draw: Callable[[Desk], Page]
