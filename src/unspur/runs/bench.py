"""Many runs, one table: every recipe with every seed, means beside the published numbers."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .. import stages
from ..recipes import Recipe
from ..recipes.published import METRICS, PUBLISHED
from ..store import Artifact, environment, write_bytes
from ..training.metrics import mean_sd
from .intervals import bootstrap
from .run_folder import record, with_advice
from .tables import HEADER, MODELS, comma_separated, latex, markdown, percent, pivot, table_row

__all__ = [
    "HEADER",
    "MODELS",
    "PUBLISHED",
    "bench",
    "markdown",
    "percent",
    "pivot",
    "row_of",
    "run_of",
    "save",
    "save_numbers",
    "spent",
    "summarise",
    "table_row",
]


def bench(
    recipes: Iterable[Recipe],
    seeds: Iterable[int],
    open_run: Callable[[Recipe], stages.Run],
    *,
    together: int = 1,
) -> dict[str, Any]:
    """Run every recipe with every seed, `together` of them at once; what is stored is not run again."""
    recipes, seeds = list(recipes), list(seeds)
    runs: list[dict[str, Any]] = []
    seconds = 0.0
    for some in _in_groups([each.seeded(seed) for each in recipes for seed in seeds], together):
        opened = [open_run(each) for each in some]
        for each in opened:
            each.ready()
        began = time.perf_counter()
        finished = stages.run_together(opened)
        seconds += time.perf_counter() - began
        runs += [run_of(e, scores) for e, (_, scores) in zip(opened, finished, strict=True)]
    rows = [
        row_of(recipe, runs[number * len(seeds) : (number + 1) * len(seeds)])
        for number, recipe in enumerate(recipes)
    ]
    return {
        "made": time.strftime("%Y-%m-%d", time.gmtime()),
        "seeds": seeds,
        "together": together,
        "seconds": round(seconds, 3),
        "with": environment(),
        "results": rows,
    }


def run_of(run: stages.Run, scores: Artifact) -> dict[str, Any]:
    """Return one run as the results hold it."""
    context = run.context
    metric = METRICS.get(context.recipe.data.name, "unbiased")
    return {
        "seed": context.recipe.seed,
        **with_advice(_without_groups(scores.facts), run.advice),
        "intervals": _intervals(scores, metric),
        "run": record(context, run.results, scores),
    }


def row_of(recipe: Recipe, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the runs of one recipe as the results hold them."""
    summary = summarise(runs, metric=METRICS.get(recipe.data.name, "unbiased"))
    return {"recipe": recipe.model_dump(mode="json"), "runs": runs, "summary": summary}


def _intervals(scores: Artifact, metric: str) -> dict[str, list[float]]:
    """Return 95 % bootstrap intervals, over test samples, of each network's accuracy and of the gain."""
    intervals = bootstrap(scores.tensors)
    chosen = {name: each[metric] for name, each in intervals.accuracy.items() if metric in each}
    chosen |= {"gain": intervals.gain[metric]} if metric in intervals.gain else {}
    return {name: [round(bound, 4) for bound in each] for name, each in chosen.items()}


def _in_groups(runs: Sequence[Recipe], size: int) -> Iterator[list[Recipe]]:
    """Yield neighbours with the same plan, at most `size` of them at a time."""
    for _, same in itertools.groupby(runs, key=lambda each: each.plan):
        while some := list(itertools.islice(same, size)):
            yield some


def summarise(runs: list[dict[str, Any]], *, metric: str = "unbiased") -> dict[str, Any]:
    """Return mean and standard deviation over seeds of what the table shows."""
    values_by_name = {
        model: [run[model][metric] for run in runs]
        for model in MODELS
        if all(run[model] and run[model][metric] is not None for run in runs)
    }
    values_by_name["density"] = [run["density"]["overall"] for run in runs]
    for name in ("precision", "recall"):
        values_by_name[name] = [run["mining"][name] for run in runs if run["mining"]]
    values_by_name["seconds"] = [run["run"]["seconds"] for run in runs]
    return {
        name: dict(zip(("mean", "sd"), mean_sd(values), strict=True))
        for name, values in values_by_name.items()
        if values and None not in values
    }


def spent(results: dict[str, Any]) -> str:
    """Return how long the runs took, and how much of it went into compiling and recording steps."""
    runs = [run["run"] for row in results["results"] for run in row["runs"]]
    seconds = sum(run["seconds"] for run in runs)
    setup = sum(s.get("setup_seconds", 0.0) for run in runs for s in run["stages"].values())
    return (
        f"{len(runs)} runs took {seconds:.1f} s, {setup:.1f} s of it to compile and record steps."
    )


def save(results: dict[str, Any], path: Path) -> None:
    """Write the numbers as JSON, and tables beside them as Markdown, CSV and LaTeX."""
    save_numbers(results, path.with_suffix(".json"))
    for suffix, render in {".md": markdown, ".csv": comma_separated, ".tex": latex}.items():
        write_bytes(path.with_suffix(suffix), render(results).encode())


def save_numbers(results: dict[str, Any], path: Path) -> None:
    """Write the numbers alone, as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, (json.dumps(results, indent=1) + "\n").encode())


def _without_groups(facts: dict[str, Any]) -> dict[str, Any]:
    remaining = dict(facts)
    for model in MODELS:
        if remaining[model]:
            remaining[model] = {k: v for k, v in remaining[model].items() if k != "groups"}
    remaining.pop("iterates", None)
    return remaining
