"""Tables of the development runs that the preset was chosen by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import mean
from typing import Any

MEASURES = ("unbiased", "aligned", "conflicting")
HEADER = (
    "| name | ordinary | pruned | result: unbiased | aligned | conflicting | weights kept | runs |"
)


def search_table(runs: Sequence[dict[str, Any]]) -> str:
    """Return a table with one line for each variant: means over its runs."""
    named: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for run in runs:
        named[run["name"]].append(run)
    best = max(_mean(group, "debiased", "unbiased") for group in named.values())
    lines = [_line(name, group, best) for name, group in named.items()]
    return "\n".join([HEADER, "|---|---:|---:|---:|---:|---:|---:|---:|", *lines])


def _line(name: str, runs: Sequence[dict[str, Any]], best: float) -> str:
    result = [_mean(runs, "debiased", measure) for measure in MEASURES]
    cells = [f"{value:.1f}" for value in result]
    cells[0] = f"**{cells[0]}**" if result[0] == best else cells[0]
    before = [
        f"{_mean(runs, network, 'unbiased'):.1f}" if network in runs[0] else "–"
        for network in ("ordinary", "pruned")
    ]
    kept = f"{100 * mean(run['kept'] for run in runs):.0f} %"
    return f"| {' | '.join([name, *before, *cells, kept, str(len(runs))])} |"


def _mean(runs: Sequence[dict[str, Any]], network: str, measure: str) -> float:
    return float(mean(run[network][measure] for run in runs))


def settings_table(runs: Sequence[dict[str, Any]]) -> str:
    """Return a table of the settings of each variant, without those that all variants share."""
    changes = {run["name"]: run["settings"] for run in runs}
    shared = set.intersection(*(set(_shown(settings)) for settings in changes.values()))
    lines = [
        f"| {name} | {', '.join(each for each in _shown(settings) if each not in shared)} |"
        for name, settings in changes.items()
    ]
    return "\n".join(["| name | settings |", "|---|---|", *lines])


def _shown(settings: dict[str, Any]) -> list[str]:
    return [f"`{name}={value}`" for name, value in settings.items() if name != "precision"]
