"""Data without a shortcut, on which `unspur debias` must not do harm."""

from __future__ import annotations

from .item import DASH, Cells, Item, Page, Result, Results, cell, mean_sd_text
from .pages import FACTS, cut, facts, legend, table

DATA = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
PRESETS = {"debias": "the preset", "debias-1": "first preset"}


def _cells() -> Cells:
    return {(data, preset): cell(f"{data}/{preset}") for data in DATA for preset in PRESETS}


def _draw(results: Results) -> Page:
    header = ["data", "settings", *FACTS, "ordinary model", "result", "difference, points", "judge"]
    header.append("weights cut")
    rows = [
        [title, name, *_row(results[data, preset])]
        for data, title in DATA.items()
        for preset, name in PRESETS.items()
    ]
    return Page(
        [
            "Data without a shortcut, with the settings that `unspur debias` chooses on a GPU. It runs an "
            "audit first. If there is no sign of a shortcut, the result is the ordinary model.",
            legend(
                "*judge*: the verdict of the audit, and in brackets the number of runs with it. *nothing* "
                "means no sign of a shortcut."
            ),
            table(header, rows),
        ]
    )


def _row(result: Result) -> list[str]:
    verdicts = [run["judge"]["verdict"] for run in result.runs if run.get("judge")]
    judged = ", ".join(f"{v} ({verdicts.count(v)})" for v in dict.fromkeys(verdicts))
    scores = [result.text(name, "average") for name in ("ordinary", "debiased")]
    change = [
        run["debiased"]["average"] - run["ordinary"]["average"]
        for run in result.runs
        if run["ordinary"]
    ]
    return [*facts(result), *scores, mean_sd_text(change), judged or DASH, cut(result)]


HARMLESS = Item("Data without a shortcut: debiasing does no harm", _cells, _draw)
