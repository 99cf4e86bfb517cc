"""Many runs, one table: every recipe with every seed, means beside the published numbers."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from . import stages
from .bundle import record
from .lab import Lab, Made
from .metrics import mean_sd
from .recipe import Recipe
from .store import Artifact, environment, write_bytes

# Unbiased accuracy in per cent, mean of four seeds: the paper's main table.
PUBLISHED: dict[str, dict[str, float]] = {
    "cmnist/0.5pct": {"erm": 62.36, "dcwp": 93.41},
    "cmnist/1pct": {"erm": 81.73, "dcwp": 95.98},
    "cmnist/2pct": {"erm": 89.33, "dcwp": 97.16},
    "cmnist/5pct": {"erm": 95.22, "dcwp": 98.02},
}
MODELS = ("ordinary", "pruned", "debiased")


def bench(
    recipes: Iterable[Recipe],
    seeds: Iterable[int],
    lab_of: Callable[[Recipe], Lab],
    *,
    together: int = 1,
) -> dict[str, Any]:
    """Run every recipe with every seed, `together` of them at once; what is stored is not run again."""
    recipes, seeds = list(recipes), list(seeds)
    runs: list[dict[str, Any]] = []
    seconds = 0.0
    for some in _in_groups([each.seeded(seed) for each in recipes for seed in seeds], together):
        labs = [lab_of(each) for each in some]
        began = time.perf_counter()
        made = stages.run_together(labs)
        seconds += time.perf_counter() - began
        runs += [_run(lab, *each) for lab, each in zip(labs, made, strict=True)]
    rows = []
    for number, recipe in enumerate(recipes):
        mine = runs[number * len(seeds) : (number + 1) * len(seeds)]
        rows.append(
            {"recipe": recipe.model_dump(mode="json"), "runs": mine, "summary": summarise(mine)}
        )
    return {
        "made": time.strftime("%Y-%m-%d", time.gmtime()),
        "seeds": seeds,
        "together": together,
        "seconds": round(seconds, 3),
        "with": environment(),
        "results": rows,
    }


def _run(lab: Lab, made: Made, scores: Artifact) -> dict[str, Any]:
    """One run as the results hold it."""
    return {
        "seed": lab.recipe.seed,
        **_without_groups(scores.facts),
        "run": record(lab, made, scores),
    }


def _in_groups(runs: Sequence[Recipe], size: int) -> Iterator[list[Recipe]]:
    """Neighbours with the same plan, at most `size` of them at a time."""
    for _, same in itertools.groupby(runs, key=lambda each: each.plan):
        while some := list(itertools.islice(same, size)):
            yield some


def summarise(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation over seeds of what the table shows."""
    found = {
        model: [run[model]["unbiased"] for run in runs]
        for model in MODELS
        if all(run[model] and run[model]["unbiased"] is not None for run in runs)
    }
    found["density"] = [run["density"]["overall"] for run in runs]
    for name in ("precision", "recall"):
        found[name] = [run["mining"][name] for run in runs if run["mining"]]
    found["seconds"] = [run["run"]["seconds"] for run in runs]
    return {
        name: dict(zip(("mean", "sd"), mean_sd(values), strict=True))
        for name, values in found.items()
        if values and None not in values
    }


def save(results: dict[str, Any], path: Path) -> None:
    """Write the numbers as JSON and the table beside them as Markdown."""
    path = path.with_suffix(".json")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, (json.dumps(results, indent=1) + "\n").encode())
    write_bytes(path.with_suffix(".md"), markdown(results).encode())


def markdown(results: dict[str, Any]) -> str:
    """The table of a bench, generated from its numbers alone."""
    rows = [HEADER, ["---"] + ["---:"] * (len(HEADER) - 1)]
    rows += [table_row(row) for row in results["results"]]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    device = results["with"]["gpu"] if results["with"]["gpu"] != "none" else results["with"]["cpu"]
    note = (
        f"Unbiased accuracy on the test split (mean over groups), mean ± standard deviation over seeds "
        f"{', '.join(map(str, results['seeds']))}. Published: mean of four seeds. "
        f"{device}, torch {results['with']['torch']}, unspur {results['with']['unspur']}, {results['made']}. "
        "Seconds are the sum over a run's stages; runs made at once share theirs."
    )
    return "\n".join([*lines, "", note, ""])


HEADER = [
    "recipe",
    "selection",
    "ordinary",
    "pruned only",
    "debiased",
    "published ERM → DCWP",
    "weights kept",
    "mining precision / recall",
    "seconds",
]


def table_row(row: dict[str, Any]) -> list[str]:
    """One recipe as text cells."""
    summary, recipe = row["summary"], row["recipe"]
    data = f"{recipe['data']['name']}/{recipe['data']['ratio']}"
    known = PUBLISHED.get(data)
    return [
        recipe["name"],
        recipe["select"]["rule"],
        *(percent(summary.get(model)) for model in MODELS),
        f"{known['erm']:.1f} → {known['dcwp']:.1f}" if known else "–",
        percent(summary["density"]),
        " / ".join(percent(summary.get(name)) for name in ("precision", "recall")),
        f"{summary['seconds']['mean']:.0f}",
    ]


def percent(value: dict[str, float | None] | None) -> str:
    """Mean ± sd in per cent."""
    if value is None or value["mean"] is None:
        return "–"
    spread = "" if value["sd"] is None else f" ± {100 * value['sd']:.1f}"
    return f"{100 * value['mean']:.1f}{spread}"


def _without_groups(facts: dict[str, Any]) -> dict[str, Any]:
    kept = dict(facts)
    for model in MODELS:
        if kept[model]:
            kept[model] = {k: v for k, v in kept[model].items() if k != "groups"}
    kept.pop("iterates", None)
    return kept
