"""From an item to its page: run what is missing, as far as time and data allow; draw what is known."""

from __future__ import annotations

import time
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from .. import stages
from ..errors import DataError, Interrupted, ModelError, UnspurError
from ..recipes.loading import Recipe
from ..runs import bench
from ..stages.context import Context
from . import pages
from .item import Cells, Desk, Item, Result, Results, Run, Sheet
from .quick import quick_cells
from .record_search import Ledger, identity
from .supplement import EXTRAS


@dataclass(frozen=True)
class Outcome:
    """What came of an item: its page, how many runs it has of those it wants, what went wrong."""

    page: Path | None
    wanted: int = 0
    found: int = 0
    problems: tuple[str, ...] = ()


def reproduce(name: str, item: Item | Sheet, desk: Desk) -> Outcome:
    """Run what is missing of an item, then write its page."""
    try:
        return _sheet(name, item, desk) if isinstance(item, Sheet) else _item(name, item, desk)
    except Interrupted:
        raise
    except UnspurError as error:
        return Outcome(None, problems=(str(error),))


def _item(name: str, item: Item, desk: Desk) -> Outcome:
    cells = quick_cells(item.cells()) if desk.quick else item.cells()
    problems = _run_missing(name, cells, Ledger(desk.out), item.keep, desk) if desk.run else []
    ledger = Ledger(desk.out)  # with what other commands have added meanwhile
    results = look_up(cells, ledger, item.keep)
    page = pages.write(name, item, results, desk)
    wanted = {(identity(each.recipe), seed) for each in cells.values() for seed in each.seeds}
    left = sum(1 for _ in _missing(cells, ledger, item.keep))
    return Outcome(page, len(wanted), len(wanted) - left, tuple(problems))


def look_up(cells: Cells, ledger: Ledger, keep: Collection[str] = ()) -> Results:
    """What is known of every cell."""
    found = {}
    for key, each in cells.items():
        known = (ledger.find(each.recipe, seed, keep=keep) for seed in each.seeds)
        found[key] = Result(each, tuple(one for one in known if one is not None))
    return found


def in_order(cells: Cells) -> Iterator[tuple[int, Recipe]]:
    """Every run wanted, once: the first seed of all cells, then the second, ...; with the turn it is in."""
    seen: set[tuple[str, int]] = set()
    for turn in range(max((len(each.seeds) for each in cells.values()), default=0)):
        for each in cells.values():
            for seed in each.seeds[turn : turn + 1]:
                if (key := (identity(each.recipe), seed)) not in seen:
                    seen.add(key)
                    yield turn, each.recipe.seeded(seed)


def groups(runs: Iterable[tuple[int, Recipe]], size: int) -> Iterator[tuple[Recipe, ...]]:
    """Runs of one plan and data set, at most `size` of them at a time; those of an early turn first."""
    alike: dict[tuple[str, str], list[tuple[int, Recipe]]] = {}
    for turn, settings in runs:
        alike.setdefault((settings.plan, settings.data.name), []).append((turn, settings))
    some = [
        each[start : start + size] for each in alike.values() for start in range(0, len(each), size)
    ]
    for group in sorted(some, key=lambda group: group[0][0]):
        yield tuple(settings for _, settings in group)


def _missing(cells: Cells, ledger: Ledger, keep: Collection[str]) -> Iterator[tuple[int, Recipe]]:
    for turn, settings in in_order(cells):
        if ledger.find(settings, settings.seed, keep=keep) is None:
            yield turn, settings


def _run_missing(
    name: str, cells: Cells, ledger: Ledger, keep: Collection[str], desk: Desk
) -> list[str]:
    """Run and record group by group; what went wrong, each thing once."""
    ledger.check(name)
    absent: dict[Hashable, str] = {}
    failures: list[str] = []
    how = {"precision": desk.precision} if desk.precision else {}
    missing = [
        (turn, settings.model_copy(update=how))
        for turn, settings in _missing(cells, ledger, keep)
        if fnmatch(settings.name, desk.only)
    ]
    for some in groups(missing, desk.together):
        if time.monotonic() >= desk.until:
            break
        if contexts := _labs(some, desk, absent):
            failures += _record(name, contexts, ledger, keep, desk)
    return list(dict.fromkeys([*absent.values(), *failures]))


def _labs(some: Sequence[Recipe], desk: Desk, absent: dict[Hashable, str]) -> list[Context]:
    """The contexts of those recipes whose data and network are there; what is not is noted in `absent`."""
    contexts = []
    for each in some:
        key = (each.data.name, each.data.ratio, each.model.name, each.model.init)
        if key in absent:
            continue
        try:
            contexts.append(desk.context_of(each))
        except (DataError, ModelError) as error:
            absent[key] = str(error)
    return contexts


def _record(
    name: str, contexts: Sequence[Context], ledger: Ledger, keep: Collection[str], desk: Desk
) -> list[str]:
    """Run a group and write it down; where that fails, one by one, so that the others are not lost."""
    told = [f"{context.recipe.name} seed {context.recipe.seed}" for context in contexts]
    desk.say(f"{name}: {', '.join(told)}")
    began = time.perf_counter()
    try:
        runs = _run(contexts, keep)
    except Interrupted:
        raise
    except UnspurError as error:
        if len(contexts) > 1:
            return [
                each
                for context in contexts
                for each in _record(name, [context], ledger, keep, desk)
            ]
        return [f"{told[0]}: {error}"]
    seconds = time.perf_counter() - began
    ledger.add(name, runs, seconds=seconds, together=desk.together)
    return []


def _run(contexts: Sequence[Context], keep: Collection[str]) -> list[tuple[Recipe, Run]]:
    runs = []
    for context, (made, scores) in zip(
        contexts, stages.run_together(list(map(stages.Run, contexts))), strict=True
    ):
        run = bench.run_of(context, made, scores)
        if keep:
            run["kept"] = {name: EXTRAS[name](context, made, scores) for name in keep}
        runs.append((context.recipe, run))
    return runs


def _sheet(name: str, sheet: Sheet, desk: Desk) -> Outcome:
    if not desk.run or time.monotonic() >= desk.until:
        return Outcome(None)
    desk.say(name)
    return Outcome(pages.write_sheet(name, sheet, desk))
