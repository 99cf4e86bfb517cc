"""Reproduce an item: run its missing runs, as far as time and data allow, then write its page."""

from __future__ import annotations

import time
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from ..errors import DataError, Interrupted, ModelError, UnspurError
from ..recipes import Recipe
from ..stages.context import Context
from ..store import make_folder
from . import pages
from .item import Cells, FigureItem, Item, ItemCell, ReproduceOptions, Result, Results
from .pool_runs import run_contexts, run_on_pool
from .quick import quick_cells
from .records import Records
from .run_extras import needed_extras
from .run_identity import identity

RunKey = tuple[str, int]  # the identity of a recipe, and a seed


@dataclass(frozen=True)
class ItemOutcome:
    """The outcome of an item: its page, the number of runs it needs, those that are missing, and errors."""

    page: Path | None
    wanted: int = 0
    missing: frozenset[RunKey] = frozenset()
    problems: tuple[str, ...] = ()

    @property
    def found(self) -> int:
        return self.wanted - len(self.missing)


def reproduce(name: str, item: Item | FigureItem, options: ReproduceOptions) -> ItemOutcome:
    """Run the missing runs of an item, then write its page."""
    try:
        if isinstance(item, FigureItem):
            return _reproduce_figure(name, item, options)
        return _reproduce_item(name, item, options)
    except Interrupted:
        raise
    except UnspurError as error:
        return ItemOutcome(None, problems=(str(error),))


def _reproduce_figure(name: str, item: FigureItem, options: ReproduceOptions) -> ItemOutcome:
    if not options.run:
        page = item.redraw(options)
    elif time.monotonic() < options.until:
        options.say(name)
        make_folder(options.pages)
        page = item.draw(options)
    else:
        page = None
    return ItemOutcome(pages.write_page(name, item.title, page, options) if page else None)


def _reproduce_item(name: str, item: Item, options: ReproduceOptions) -> ItemOutcome:
    cells = quick_cells(item.cells()) if options.quick else item.cells()
    records = Records(options.results)
    problems = []
    if options.run:
        problems = _Runner(name, item.extras, records, options).run_missing(cells)
        records.read()  # other commands may have added runs meanwhile
    page = pages.write(name, item, look_up(cells, records, item.extras), options)
    wanted = {(identity(each.recipe), seed) for each in cells.values() for seed in each.seeds}
    missing = missing_keys(cells, records, item.extras)
    return ItemOutcome(page, len(wanted), missing, tuple(problems))


def look_up(cells: Cells, records: Records, extras: Collection[str] = ()) -> Results:
    """Return the recorded runs of every cell."""
    found = {}
    for key, each in cells.items():
        found[key] = _result(each, records, needed_extras(each.recipe, extras))
    return found


def _result(each: ItemCell, records: Records, extras: Collection[str]) -> Result:
    chosen, others = [], []
    for seed in each.seeds:
        run = records.find(each.recipe, seed, extras=extras)
        same = records.find_all(each.recipe, seed, extras=extras)
        chosen += [run] if run is not None else []
        others += [other for other in same if run and other.precision != run.precision]
    return Result(each, tuple(chosen), tuple(others))


def in_order(cells: Cells) -> Iterator[tuple[int, Recipe]]:
    """Yield every run once with its turn: first the first seed of all cells, then the second, ..."""
    seen: set[RunKey] = set()
    for turn in range(max((len(each.seeds) for each in cells.values()), default=0)):
        for each in cells.values():
            for seed in each.seeds[turn : turn + 1]:
                if (key := (identity(each.recipe), seed)) not in seen:
                    seen.add(key)
                    yield turn, each.recipe.seeded(seed)


def missing_runs(
    cells: Cells, records: Records, extras: Collection[str]
) -> Iterator[tuple[int, Recipe]]:
    """Yield the runs that are not recorded with these extras, with their turns."""
    for turn, settings in in_order(cells):
        of_recipe = needed_extras(settings, extras)
        if records.find(settings, settings.seed, extras=of_recipe) is None:
            yield turn, settings


def missing_keys(cells: Cells, records: Records, extras: Collection[str] = ()) -> frozenset[RunKey]:
    """Return what identifies the runs that are not recorded with these extras."""
    runs = missing_runs(cells, records, extras)
    return frozenset((identity(settings), settings.seed) for _, settings in runs)


def groups(runs: Iterable[tuple[int, Recipe]], size: int) -> Iterator[tuple[Recipe, ...]]:
    """Yield groups of at most `size` runs with the same plan and data set, ordered by their turns."""
    alike: dict[tuple[str, str], list[tuple[int, Recipe]]] = {}
    for turn, settings in runs:
        alike.setdefault((settings.plan, settings.data.name), []).append((turn, settings))
    some = [
        each[start : start + size] for each in alike.values() for start in range(0, len(each), size)
    ]
    for group in sorted(some, key=lambda group: group[0][0]):
        yield tuple(settings for _, settings in group)


@dataclass(frozen=True)
class _Runner:
    """Runs and records the missing runs of an item."""

    item: str
    extras: Collection[str]
    records: Records
    options: ReproduceOptions

    def run_missing(self, cells: Cells) -> list[str]:
        """Run and record group by group; return the errors, each once."""
        absent: dict[Hashable, str] = {}
        failures: list[str] = []
        if self.options.pool is not None:
            all_groups = list(groups(self._selected(cells), self.options.together))
            outcomes = run_on_pool(self.options.pool, all_groups, self.extras, self.options)
            for runs, problems in outcomes:
                failures += problems
                self.records.add(self.item, runs)
            return list(dict.fromkeys(failures))
        for group in groups(self._selected(cells), self.options.together):
            if time.monotonic() >= self.options.until:
                break
            if contexts := self._contexts(group, absent):
                failures += self._record(contexts)
        return list(dict.fromkeys([*absent.values(), *failures]))

    def _selected(self, cells: Cells) -> list[tuple[int, Recipe]]:
        """Return the missing runs that the options select."""
        changes = {"precision": self.options.precision} if self.options.precision else {}
        return [
            (turn, settings.model_copy(update=changes))
            for turn, settings in missing_runs(cells, self.records, self.extras)
            if fnmatch(settings.name, self.options.only)
        ]

    def _contexts(self, group: Sequence[Recipe], absent: dict[Hashable, str]) -> list[Context]:
        """Return the contexts of recipes whose data and network exist; add errors to `absent`."""
        contexts = []
        for each in group:
            key = (each.data.name, each.data.ratio, each.model.name, each.model.init)
            if key in absent:
                continue
            try:
                contexts.append(self.options.context_of(each))
            except (DataError, ModelError) as error:
                absent[key] = str(error)
        return contexts

    def _record(self, contexts: Sequence[Context]) -> list[str]:
        """Run a group and record it; after an error, run one at a time, so that the others are kept."""
        names = [f"{context.recipe.name} seed {context.recipe.seed}" for context in contexts]
        self.options.say(f"{self.item}: {', '.join(names)}")
        try:
            runs = [*run_contexts(contexts, self.extras)]
        except Interrupted:
            raise
        except UnspurError as error:
            if len(contexts) > 1:
                return [failure for context in contexts for failure in self._record([context])]
            return [f"{names[0]}: {error}"]
        self.records.add(self.item, runs)
        return []
