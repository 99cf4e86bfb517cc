"""What has been run: every result below a folder, found again by what it depends on.

A result is JSON as `unspur bench` writes it. What two runs must share to be the same run is their plan, the
settings it reads, and the seed; the ordinary model of a run is also ERM's. The name of a recipe does not
matter, and settings that came later have their defaults.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from .. import recipes
from ..errors import RecipeError, StoreError
from ..methods import plans
from ..recipes.loading import Recipe
from ..runs import bench
from ..store import environment, locked, make_folder
from .item import Known, Run

# Settings that no result depends on, and precision, which moves one less than a seed does.
ASIDE = {"name", "seed", "log_every", "watch_every", "checkpoint_every", "checkpoint_seconds"}
ASIDE |= {"precision", "compile"}
DATA_ASIDE = {"source", "workers"}


def identity(settings: Recipe) -> str:
    """What a result depends on, but for the seed, as text."""
    used = {"data", "model", "select", *plans()[settings.plan]}
    table = {
        key: value
        for key, value in settings.model_dump(mode="json").items()
        if key not in ASIDE and (not isinstance(value, dict) or key in used)
    }
    table["data"] = {key: v for key, v in table["data"].items() if key not in DATA_ASIDE}
    return json.dumps(table, sort_keys=True)


class Ledger:
    """The results below a folder, and those that are added to it."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.known: dict[tuple[str, int], list[Known]] = {}
        for path in sorted(folder.rglob("*.json")):
            results = _read(path)
            for row in results["results"]:
                self._note(row, results.get("made", ""), path.relative_to(folder).as_posix())

    def find(self, settings: Recipe, seed: int, *, keep: Collection[str] = ()) -> Known | None:
        """A run of the recipe with that seed that has kept what is needed of it.

        Of several, one in the recipe's own precision, then the first by the name of its file.
        """
        known = self.known.get((identity(settings), seed), [])
        found = [each for each in known if set(keep) <= each.run.get("kept", {}).keys()]
        return min(found, key=lambda each: each.precision != settings.precision, default=None)

    def add(
        self, item: str, runs: Iterable[tuple[Recipe, Run]], *, seconds: float, together: int
    ) -> None:
        """Write runs to an item's file, beside what it holds; a run with the same seed is replaced."""
        path = self.folder / f"{item}.json"
        make_folder(self.folder)
        self.check(item)
        with locked(path):  # another command may be writing to it
            self._add(path, list(runs), seconds, together)

    def check(self, item: str) -> None:
        """Raise if runs added to an item's file would take the place of something else."""
        path = self.folder / f"{item}.json"
        if path.exists() and _found(path) is None:
            raise StoreError(
                f"{path} holds no results that can be read. Repair it or move it away; nothing was changed."
            )

    def _add(
        self, path: Path, runs: list[tuple[Recipe, Run]], seconds: float, together: int
    ) -> None:
        results = _read(path)
        rows = {_row_of(row["recipe"]): row for row in results["results"]}
        for settings, run in runs:
            key = _row_of(settings.model_dump(mode="json"))
            held = rows[key]["runs"] if key in rows else []
            held = sorted([r for r in held if r["seed"] != run["seed"]] + [run], key=_seed)
            rows[key] = _lean(bench.row_of(settings.seeded(0), held))
            self._note({"recipe": rows[key]["recipe"], "runs": [run]}, _today(), path.name)
        bench.save_numbers(
            {
                "made": _today(),
                "seeds": sorted({run["seed"] for row in rows.values() for run in row["runs"]}),
                "together": together,
                "seconds": round(results.get("seconds", 0.0) + seconds, 3),
                "with": environment(),
                "results": list(rows.values()),
            },
            path,
        )

    def _note(self, row: dict[str, Any], made: str, file: str) -> None:
        key, precision = _row_of(row["recipe"])
        for run in row["runs"]:
            self.known.setdefault((key, run["seed"]), []).append(Known(run, made, file, precision))
        if (erm := _erm_within(row["recipe"])) is not None:
            for run in row["runs"]:
                ordinary = Known(_ordinary(run), made, file, precision)
                self.known.setdefault((erm, run["seed"]), []).append(ordinary)


def _lean(row: dict[str, Any]) -> dict[str, Any]:
    """A row without what says nothing: settings its plan does not read, versions that are all the same."""
    settings = row["recipe"]
    used = {"data", "model", "select", *plans()[settings["plan"]]}
    row["recipe"] = {k: v for k, v in settings.items() if not isinstance(v, dict) or k in used}
    for run in row["runs"]:
        for stage in run["run"]["stages"].values():
            if stage.get("with") == run["run"]["with"]:
                del stage["with"]
    return row


def _erm_within(table: dict[str, Any]) -> str | None:
    """The identity of the ERM that a recipe on record begins with, if it does."""
    if table["plan"] == "erm" or "pretrain" not in plans().get(table["plan"], ()):
        return None
    return _identity_of({**table, "plan": "erm"})


def _ordinary(run: Run) -> Run:
    """The same run, had it ended with the ordinary model."""
    selection = {"rule": "last", "reason": "the ordinary model is the result"}
    density = {"overall": 1.0, "reachable": 1.0, "macs": 1.0, "layers": {}}
    ended = {"debiased": run["ordinary"], "pruned": None, "mining": None, "unseen": None}
    kept = {name: value for name, value in run.items() if name not in ("kept", "intervals")}
    stages = {name: run["run"]["stages"][name] for name in (*plans()["erm"], "evaluate")}
    seconds = round(sum(stage["seconds"] for stage in stages.values()), 3)
    kept["run"] = {**run["run"], "stages": stages, "seconds": seconds}
    return {**kept, **ended, "density": density, "selection": selection}


def _row_of(table: dict[str, Any]) -> tuple[str, str]:
    """What the runs of a row have in common: their identity, and how exactly they were computed."""
    return _identity_of(table), str(table.get("precision", ""))


def _identity_of(table: dict[str, Any]) -> str:
    """The identity of a recipe on record; one that can no longer be read is only itself."""
    try:
        return identity(recipes.parse(table, where="a result"))
    except RecipeError:
        return json.dumps(table, sort_keys=True)


def _read(path: Path) -> dict[str, Any]:
    """The results in a file, which may be none."""
    return _found(path) or {"results": []}


def _found(path: Path) -> dict[str, Any] | None:
    """The results in a file, or None where it holds something else."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    rows = found.get("results") if isinstance(found, dict) else None
    held = isinstance(rows, list) and all(
        isinstance(row, dict) and {"recipe", "runs"} <= row.keys() for row in rows
    )
    return found if held else None


def _today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())


def _seed(run: Run) -> int:
    return int(run["seed"])
