"""Run many recipes: in this process, in parts on several machines, or on a cluster.

The runs of a group are trained side by side. Every finished run of a part or of a cluster is written next to
the table (`RunRecords`), so that the same command again runs only what is missing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .. import data, stages
from ..cluster import Pool, SerialPool, TaskFailure
from ..errors import Interrupted, UnspurError, UsageError
from ..recipes import Recipe
from ..runs.bench import group_runs, run_group, seeded_recipes
from ..runs.run_records import RunRecords, is_current
from ..stages.context import Context, Show
from ..stages.place import command_place
from ..store import default_store
from ..store.addresses import is_address
from .debiasing import open_recipe

RunNumbers = dict[str, Any]


@dataclass(frozen=True)
class Site:
    """Where runs are carried out, by name, so that another process or machine can open the same place."""

    device: str | None = None
    store: str | None = None
    data_root: Path | None = None
    threads: int | None = None  # threads of a training on the CPU; None chooses a number

    def absolute(self) -> Site:
        """Return the same site with absolute paths, for a worker in another folder."""
        store = self.store or default_store()
        return Site(
            self.device,
            store if is_address(store) else os.path.abspath(store),
            self.data_root.absolute() if self.data_root else None,
            self.threads,
        )

    def opener(self, show: Show) -> Callable[[Recipe], stages.Run]:
        """Return a function that prepares the run of a recipe; a data set is loaded once for all its runs."""
        load = cache(data.load)
        place = command_place(self.device, self.store, show, self.threads)
        return lambda recipe: open_recipe(recipe, place, root=self.data_root, load=load)

    def open_quietly(self, recipe: Recipe) -> stages.Run:
        """Prepare the run of a recipe without showing progress, as a worker of a cluster does."""
        return _quiet_opener(self)(recipe)

    def context(self, recipe: Recipe) -> Context:
        """Return the context of a recipe, as `open_quietly` does."""
        return self.open_quietly(recipe).context


@cache
def _quiet_opener(site: Site) -> Callable[[Recipe], stages.Run]:
    return site.opener(lambda stage: nullcontext())


@dataclass(frozen=True)
class ListPart:
    """One of several parts of a list, numbered from 1."""

    number: int = 1
    count: int = 1

    @staticmethod
    def parse(text: str) -> ListPart:
        """Return the part that a text such as 2/8 describes."""
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise UsageError(
                f"--part {text!r} is not a part. Write its number and how many parts there are: 1/8 to 8/8."
            )
        return ListPart(int(found[1]), int(found[2]))

    def of(self, groups: Sequence[Any]) -> list[Any]:
        """Return the elements of this part: every `count`-th of the list."""
        return list(groups[self.number - 1 :: self.count])


@dataclass(frozen=True)
class ManyRuns:
    """The runs of a bench: recipes and seeds, in groups of `together`."""

    recipes: Sequence[Recipe]
    seeds: Sequence[int]
    together: int = 1

    @property
    def all_runs(self) -> list[Recipe]:
        """Every recipe with every seed, in the order of the table."""
        return seeded_recipes(self.recipes, self.seeds)

    def positions(self, recipe: Recipe) -> list[int]:
        """Return the positions of a run in `all_runs`; several if the run is listed twice."""
        return [place for place, each in enumerate(self.all_runs) if each == recipe]

    def groups(self, part: ListPart) -> list[list[Recipe]]:
        """Return the groups of a part; they do not depend on which runs are finished."""
        return part.of(list(group_runs(self.all_runs, self.together)))


@dataclass(frozen=True)
class FinishedRuns:
    """The finished runs by their position in `ManyRuns.all_runs`, and descriptions of the failed ones."""

    runs: dict[int, RunNumbers]
    failures: list[str]


def run_here(
    many: ManyRuns, open_run: Callable[[Recipe], stages.Run], records: RunRecords, part: ListPart
) -> FinishedRuns:
    """Run a part in this process; the runs of other parts are read from the records."""
    kept = records if part.count > 1 else None
    tasks = [(open_run, group, records) for group in many.groups(part)]
    finished = _carry_out(many, SerialPool(), _run_missing, tasks, kept)
    for place, recipe in enumerate(many.all_runs if part.count > 1 else ()):
        record = None if place in finished.runs else records.read(recipe)
        if record is not None and is_current(record, open_run(recipe)):
            finished.runs[place] = record
    return finished


def run_on_cluster(
    many: ManyRuns, site: Site, records: RunRecords, part: ListPart, pool: Pool
) -> FinishedRuns:
    """Run a part on a cluster; only this process writes the records, as results arrive."""
    here = site.absolute()
    tasks = [(here, group, [records.read(each) for each in group]) for group in many.groups(part)]
    return _carry_out(many, pool, run_quietly, tasks, records)


def _carry_out(
    many: ManyRuns,
    pool: Pool,
    function: Callable[..., Sequence[RunNumbers | TaskFailure]],
    tasks: Sequence[tuple[Any, list[Recipe], Any]],
    records: RunRecords | None,
) -> FinishedRuns:
    """Run all groups, and write each finished run to `records`, if given."""
    finished = FinishedRuns({}, [])
    for number, result in pool.run(function, tasks):
        group = tasks[number][1]
        results = [result] * len(group) if isinstance(result, TaskFailure) else result
        for recipe, run in zip(group, results, strict=True):
            if isinstance(run, TaskFailure):
                finished.failures.append(f"{recipe.name} seed {recipe.seed}: {run.reason}")
                continue
            finished.runs.update(dict.fromkeys(many.positions(recipe), run))
            if records is not None:
                records.add(recipe, run)
    return finished


def _run_missing(
    open_run: Callable[[Recipe], stages.Run], group: Sequence[Recipe], records: RunRecords
) -> list[RunNumbers]:
    return _run_group(open_run, group, [records.read(each) for each in group])


def run_quietly(
    site: Site, group: Sequence[Recipe], known: Sequence[RunNumbers | None]
) -> list[RunNumbers | TaskFailure]:
    """Run a group in a worker of a cluster; if it fails, run one by one, so that the others are not lost."""
    try:
        return [*_run_group(site.open_quietly, group, known)]
    except Interrupted:
        raise
    except UnspurError as error:
        if len(group) == 1:
            return [TaskFailure(f"{type(error).__name__}: {error}")]
    pairs = zip(group, known, strict=True)
    return [run_quietly(site, [recipe], [record])[0] for recipe, record in pairs]


def _run_group(
    open_run: Callable[[Recipe], stages.Run],
    group: Sequence[Recipe],
    known: Sequence[RunNumbers | None],
) -> list[RunNumbers]:
    """Train the runs of a group side by side, except those with a current record; return all of them."""
    runs = [open_run(each) for each in group]
    current = [
        record if record is not None and is_current(record, run) else None
        for run, record in zip(runs, known, strict=True)
    ]
    missing = [run for run, record in zip(runs, current, strict=True) if record is None]
    fresh = iter(run_group(missing) if missing else [])
    return [next(fresh) if record is None else record for record in current]
