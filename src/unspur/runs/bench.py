"""Run every recipe with every seed, and compare the means with the published numbers in one table."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .. import stages
from ..errors import StoreError
from ..recipes import Recipe
from ..recipes.published import METRICS, PUBLISHED
from ..store import Artifact, environment, read_json
from ..store.addresses import TABLES, is_address, replace_suffix
from ..store.anywhere import write_anywhere
from ..training.metrics import mean_sd
from .intervals import bootstrap
from .run_folder import record, with_advice, with_gain_check
from .tables import HEADER, MODELS, comma_separated, latex, markdown, percent, pivot, table_row

__all__ = [
    "HEADER",
    "MODELS",
    "PUBLISHED",
    "bench",
    "combine_runs",
    "group_runs",
    "markdown",
    "percent",
    "pivot",
    "refuse_other_files",
    "row_of",
    "run_group",
    "run_of",
    "save",
    "save_numbers",
    "seeded_recipes",
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
    """Run every recipe with every seed, `together` of them at the same time; stored stages are reused."""
    recipes, seeds = list(recipes), list(seeds)
    runs: list[dict[str, Any]] = []
    began = time.perf_counter()
    for group in group_runs(seeded_recipes(recipes, seeds), together):
        runs += run_group([open_run(each) for each in group])
    seconds = time.perf_counter() - began
    return combine_runs(recipes, seeds, runs, together=together, seconds=seconds)


def seeded_recipes(recipes: Iterable[Recipe], seeds: Sequence[int]) -> list[Recipe]:
    """Return every recipe with every seed: the runs of a bench, in the order of its table."""
    return [each.seeded(seed) for each in recipes for seed in seeds]


def run_group(runs: Sequence[stages.Run]) -> list[dict[str, Any]]:
    """Run several plans with the same stages side by side; return the entry of each in the results."""
    for each in runs:
        each.ready()
    finished = stages.run_together(runs)
    return [run_of(e, scores) for e, (_, scores) in zip(runs, finished, strict=True)]


def combine_runs(
    recipes: Sequence[Recipe],
    seeds: Sequence[int],
    runs: Sequence[dict[str, Any]],
    *,
    together: int = 1,
    seconds: float = 0.0,
) -> dict[str, Any]:
    """Return the results of a bench: all its runs, in the order of `seeded_recipes`, and their means."""
    rows = [
        row_of(recipe, list(runs[number * len(seeds) : (number + 1) * len(seeds)]))
        for number, recipe in enumerate(recipes)
    ]
    return {
        "made": time.strftime("%Y-%m-%d", time.gmtime()),
        "seeds": list(seeds),
        "together": together,
        "seconds": round(seconds, 3),
        "with": environment(),
        "results": rows,
    }


def run_of(run: stages.Run, scores: Artifact) -> dict[str, Any]:
    """Return the entry of one run in the results."""
    context = run.context
    metric = METRICS.get(context.recipe.data.name, "unbiased")
    return {
        "seed": context.recipe.seed,
        **with_gain_check(with_advice(_without_groups(scores.facts), run.advice), run.gain_check),
        "intervals": _intervals(scores, metric),
        "run": record(context, run.results, scores),
    }


def row_of(recipe: Recipe, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the entry of one recipe in the results: its runs and their means."""
    summary = summarise(runs, metric=METRICS.get(recipe.data.name, "unbiased"))
    return {"recipe": recipe.model_dump(mode="json"), "runs": runs, "summary": summary}


def _intervals(scores: Artifact, metric: str) -> dict[str, list[float]]:
    """Return 95 % bootstrap intervals (over test samples) of each network's accuracy and of the gain."""
    intervals = bootstrap(scores.tensors)
    chosen = {name: each[metric] for name, each in intervals.accuracy.items() if metric in each}
    chosen |= {"gain": intervals.gain[metric]} if metric in intervals.gain else {}
    return {name: [round(bound, 4) for bound in each] for name, each in chosen.items()}


def group_runs(runs: Iterable[Recipe], size: int) -> Iterator[list[Recipe]]:
    """Yield groups of consecutive runs with the same plan, of at most `size` runs."""
    for _, same in itertools.groupby(runs, key=lambda each: each.plan):
        while some := list(itertools.islice(same, size)):
            yield some


def summarise(runs: list[dict[str, Any]], *, metric: str = "unbiased") -> dict[str, Any]:
    """Return the mean and standard deviation over seeds of every number in the table."""
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
    """Return a sentence on how long the runs took, and how much of it was compiling and capturing steps."""
    runs = [run["run"] for row in results["results"] for run in row["runs"]]
    seconds = sum(run["seconds"] for run in runs)
    setup = sum(s.get("setup_seconds", 0.0) for run in runs for s in run["stages"].values())
    return (
        f"{len(runs)} runs took {seconds:.1f} s, {setup:.1f} s of it to compile and record steps."
    )


def refuse_other_files(out: Path | str) -> None:
    """Raise StoreError if the tables of a bench would replace local files that are not from a bench."""
    paths = [Path(replace_suffix(out, suffix)) for suffix in TABLES]
    existing = [] if is_address(str(out)) else [path for path in paths if path.exists()]
    if existing and not _is_bench(paths[TABLES.index(".json")]):
        raise StoreError(
            f"{existing[0]} exists and is not from a bench. Choose another --out: the tables are written to "
            f"{', '.join(path.name for path in paths)}."
        )


def _is_bench(path: Path) -> bool:
    try:
        return {"results", "seeds"} <= read_json(path).keys()
    except StoreError:
        return False


def save(results: dict[str, Any], out: Path | str) -> None:
    """Write the results as JSON, and the tables as Markdown, CSV and LaTeX next to it."""
    save_numbers(results, replace_suffix(out, ".json"))
    for suffix, render in {".md": markdown, ".csv": comma_separated, ".tex": latex}.items():
        write_anywhere(replace_suffix(out, suffix), render(results).encode())


def save_numbers(results: dict[str, Any], out: Path | str) -> None:
    """Write only the results, as JSON."""
    write_anywhere(out, (json.dumps(results, indent=1) + "\n").encode())


def _without_groups(facts: dict[str, Any]) -> dict[str, Any]:
    remaining = dict(facts)
    for model in MODELS:
        if remaining[model]:
            remaining[model] = {k: v for k, v in remaining[model].items() if k != "groups"}
    remaining.pop("iterates", None)
    return remaining
