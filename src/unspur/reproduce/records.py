"""The records: all runs that were made for tables and figures, found by the settings they depend on.

    runs.jsonl.gz       one line for each run: recipe, seed, precision, scores, stages, versions, date
    recipes.jsonl.gz    one line for each recipe, with the hash that the runs refer to

Both files are written atomically, by one process at a time.
"""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import StoreError
from ..recipes import Recipe
from ..recipes.published import METRICS
from ..runs import bench
from ..store import locked, make_folder, read_lines, write_lines
from .item import RecordedRun, Run
from .record_lines import Line, recipe_hash, recipe_table, recorded, to_line
from .run_identity import erm_identity, identity, identity_of, ordinary_run

RUNS, RECIPES = "runs.jsonl.gz", "recipes.jsonl.gz"


class Records:
    """The runs recorded in a folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.recipes: dict[str, dict[str, Any]] = {}
        self.lines: list[Line] = []
        self._identities: dict[str, str] = {}  # by the hash of the recipe
        self._erm: dict[str, str | None] = {}
        self.read()

    def read(self) -> None:
        """Read the files of the folder."""
        self.recipes = {line["hash"]: line["recipe"] for line in _read(self.folder / RECIPES)}
        self.lines = _read(self.folder / RUNS)
        self._found: dict[tuple[str, int], list[RecordedRun]] = {}
        usable = [line for line in self.lines if line["recipe"] in self.recipes]
        if len(usable) < len(self.lines):
            lost = len(self.lines) - len(usable)
            warnings.warn(
                f"{self.folder / RECIPES} lacks the recipes of {lost} runs, which are ignored.",
                stacklevel=2,
            )
        for line in sorted(usable, key=lambda line: line["item"].split("/")):
            for same, run in self._runs_of(line):
                self._found.setdefault((same, line["seed"]), []).append(run)

    def find(
        self, settings: Recipe, seed: int, *, extras: Collection[str] = ()
    ) -> RecordedRun | None:
        """Return a recorded run of a recipe with a seed and at least these extras, or None.

        If there are several, prefer one in the recipe's precision, then the first by the name of its item.
        """
        found = self.find_all(settings, seed, extras=extras)
        return min(found, key=lambda each: each.precision != settings.precision, default=None)

    def find_all(
        self, settings: Recipe, seed: int, *, extras: Collection[str] = ()
    ) -> list[RecordedRun]:
        """Return all recorded runs of a recipe with a seed and at least these extras."""
        found = self._found.get((identity(settings), seed), [])
        return [each for each in found if set(extras) <= each.run.get("extras", {}).keys()]

    def add(self, item: str, runs: Iterable[tuple[Recipe, Run]]) -> None:
        """Record runs of an item; a run that is already recorded with the same extras is not replaced."""
        tables = [(settings.model_dump(mode="json"), run) for settings, run in runs]
        with self._changing():
            for table, run in tables:
                self._place(self._line(item, _today(), table, run))

    def add_bench(self, item: str, results: dict[str, Any]) -> int:
        """Record results of `unspur bench` under the name of an item; return the number of new lines."""
        pairs = [(row["recipe"], run) for row in results["results"] for run in row["runs"]]
        with self._changing():
            return sum(
                self._place(self._line(item, results["made"], table, run), only=item)
                for table, run in pairs
            )

    def bench(self, item: str) -> dict[str, Any]:
        """Return the runs of an item in the format of `unspur bench`, with means over seeds."""
        rows: dict[tuple[str, str], list[Line]] = {}
        for line in self.lines:
            if line["item"] == item:
                rows.setdefault((line["recipe"], line["precision"]), []).append(line)
        lines = [line for row in rows.values() for line in row]
        return {
            "made": max((line["date"] for line in lines), default=""),
            "seeds": sorted({line["seed"] for line in lines}),
            "with": lines[0]["run"]["with"] if lines else {},
            "results": [self._row(*key, row) for key, row in rows.items()],
        }

    # -- helpers --------------------------------------------------------------------------------------

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Lock the folder, read it again, and write changes at the end of the block."""
        make_folder(self.folder)
        with locked(self.folder / RUNS):
            self.read()
            known, lines = len(self.recipes), [*self.lines]
            yield
            if len(self.recipes) > known:
                recipes = [{"hash": k, "recipe": v} for k, v in self.recipes.items()]
                _write(self.folder / RECIPES, recipes)
            if self.lines != lines:
                _write(self.folder / RUNS, self.lines)
        self.read()

    def _line(self, item: str, date: str, table: dict[str, Any], run: Run) -> Line:
        stored = recipe_table(table)
        name = recipe_hash(stored)
        self.recipes.setdefault(name, stored)
        return to_line(item, date, name, str(table.get("precision", "")), run)

    def _place(self, line: Line, *, only: str = "") -> bool:
        """Add a line, or let it replace a line of its item with fewer extras; return whether it is new.

        A run that is recorded for any item is not new; with `only`, just the runs of that item count.
        """
        for number, other in enumerate(self.lines):
            if self._key(other) != self._key(line) or other["item"] != (only or other["item"]):
                continue
            if _same(other, line) or (not only and _covers(other, line)):
                return False
            if other["item"] == line["item"]:
                self.lines[number] = line
                return True
        self.lines.append(line)
        return True

    def _key(self, line: Line) -> tuple[str, str, int]:
        return self._identity(line["recipe"]), line["precision"], line["seed"]

    def _identity(self, name: str) -> str:
        if name not in self._identities:
            self._identities[name] = (
                identity_of(self.recipes[name]) if name in self.recipes else name
            )
        return self._identities[name]

    def _erm_of(self, name: str) -> str | None:
        if name not in self._erm:
            self._erm[name] = erm_identity(self.recipes[name])
        return self._erm[name]

    def _runs_of(self, line: Line) -> Iterator[tuple[str, RecordedRun]]:
        """Yield the run of a line, and its ordinary model as a run of ERM, each with its identity."""
        name = line["recipe"]
        run = recorded(line, self.recipes[name]["name"])
        yield self._identity(name), run
        if (erm := self._erm_of(name)) is not None:
            yield erm, RecordedRun(ordinary_run(run.run), run.date, run.item, run.precision)

    def _row(self, name: str, precision: str, lines: list[Line]) -> dict[str, Any]:
        table = {**self.recipes[name], "seed": 0, "precision": precision}
        runs = [recorded(line, table["name"]).run for line in lines]
        metric = METRICS.get(table["data"]["name"], "unbiased")
        return {"recipe": table, "runs": runs, "summary": bench.summarise(runs, metric=metric)}


def _same(one: Line, other: Line) -> bool:
    return {**one, "date": ""} == {**other, "date": ""}


def _covers(one: Line, other: Line) -> bool:
    """Return whether a line has all extras of another one."""
    return set(one.get("extras", {})) >= set(other.get("extras", {}))


def _read(path: Path) -> list[Any]:
    """Read the lines of a file; warn if its end is damaged."""
    lines, problem = read_lines(path)
    if problem and not lines:
        raise StoreError(
            f"{path} holds no records that can be read ({problem}). Restore it or move it away; nothing was "
            "changed."
        )
    if problem:
        warnings.warn(f"{path}: {problem}; {len(lines)} lines before it were read.", stacklevel=3)
    return lines


def _write(path: Path, lines: Iterable[Any]) -> None:
    """Write the lines of a file; if the old file is damaged, keep a copy of it."""
    if read_lines(path)[1]:
        shutil.copy(path, path.with_name(path.name + ".damaged"))
    write_lines(path, lines)


def _today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())
