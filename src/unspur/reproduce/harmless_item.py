"""Data without a shortcut: what `unspur debias` would choose must not do harm there."""

from __future__ import annotations

from .item import DASH, Cells, Item, Page, Result, Results, cell, mean_sd_text
from .pages import FACTS, READING, cut, facts, table

DATA = {"mnist": "MNIST", "cifar10": "CIFAR-10"}


def _cells() -> Cells:
    return {(data,): cell(f"{data}/debias-1") for data in DATA}


def _draw(results: Results) -> Page:
    header = ["data", *FACTS, "ordinary model", "result", "difference, points", "judge", "cut"]
    rows = [_row(title, results[data,]) for data, title in DATA.items()]
    return Page(
        [
            "Plain sets, with what `unspur debias` chooses by itself on a GPU. It asks an audit first, and "
            f"without a sign of a shortcut it returns the ordinary model. {READING} *judge*: what the audit "
            "said, in how many runs.",
            table(header, rows),
        ]
    )


def _row(title: str, result: Result) -> list[str]:
    verdicts = [run["judge"]["verdict"] for run in result.runs if run.get("judge")]
    said = ", ".join(f"{v} ({verdicts.count(v)})" for v in dict.fromkeys(verdicts))
    scores = [result.text(name, "average") for name in ("ordinary", "debiased")]
    change = [
        run["debiased"]["average"] - run["ordinary"]["average"]
        for run in result.runs
        if run["ordinary"]
    ]
    return [title, *facts(result), *scores, mean_sd_text(change), said or DASH, cut(result)]


HARMLESS = Item("Do no harm: data without a shortcut", _cells, _draw)
