"""Render the results of a bench as tables: Markdown, CSV, LaTeX, and rows of text for a terminal."""

from __future__ import annotations

import csv
import io
from typing import Any

from ..data.csv_text import escape_cell
from ..methods import all_methods
from ..recipes.published import METRIC_TITLES, METRICS, data_of, kind, number, rounded

MODELS = ("ordinary", "pruned", "debiased")
HEADER = [
    "recipe",
    "selection",
    "ordinary",
    "pruned only",
    "debiased",
    "published ERM → method",
    "weights kept",
    "mining precision / recall",
    "seconds",
]


def table_row(row: dict[str, Any]) -> list[str]:
    """Return the text cells of one recipe."""
    summary, recipe = row["summary"], row["recipe"]
    return [
        recipe["name"],
        recipe["select"]["rule"],
        *(percent(summary.get(model)) for model in MODELS),
        published(recipe),
        percent(summary["density"]),
        " / ".join(percent(summary.get(name)) for name in ("precision", "recall")),
        f"{summary['seconds']['mean']:.0f}",
    ]


def published(recipe: dict[str, Any]) -> str:
    """Return the published number of a recipe, preceded by that of ERM."""
    value, erm = number(recipe), number(recipe, "erm")
    if value is None:
        return "–"
    ablation = "ablation" in recipe["name"]  # its ERM is row 1 of the same table
    before = "" if value == erm or ablation or erm is None else f"{rounded(erm)} → "
    return f"{before}{rounded(value)}"


def percent(value: dict[str, float | None] | None) -> str:
    """Format mean ± standard deviation in per cent."""
    if value is None or value["mean"] is None:
        return "–"
    spread = "" if value["sd"] is None else f" ± {100 * value['sd']:.1f}"
    return f"{100 * value['mean']:z.1f}{spread}"


def pivot(results: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the paper's main table: methods as columns, data sets as rows, cells `ours (published)`."""
    rows = {(data_of(row["recipe"]), kind(row["recipe"])): row for row in results["results"]}
    kinds = sorted({k for _, k in rows}, key=_order)
    lines = []
    for data in dict.fromkeys(data for data, _ in rows):
        lines.append([data, *(_cell(rows.get((data, k))) for k in kinds)])
    return ["data", *(all_methods()[k].title if k in all_methods() else k for k in kinds)], lines


def _order(name: str) -> tuple[int, str]:
    known = list(all_methods())
    return (known.index(name) if name in known else len(known), name)


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "–"
    known = number(row["recipe"])
    ours = percent(row["summary"].get("debiased"))
    return ours if known is None else f"{ours} ({rounded(known)})"


def markdown(results: dict[str, Any]) -> str:
    """Return the tables of a bench in Markdown, from its results only."""
    lines = markdown_table(HEADER, [table_row(row) for row in results["results"]])
    header, rows = pivot(results)
    if len(header) > 2:
        lines += ["", "Ours, and in brackets the published number:", ""]
        lines += markdown_table(header, rows)
    return "\n".join([*lines, "", note(results), ""])


def markdown_table(header: list[str], rows: list[list[str]]) -> list[str]:
    """Return the lines of a Markdown table, with numbers aligned to the right."""
    ruler = ["---"] + ["---:"] * (len(header) - 1)
    return ["| " + " | ".join(row) + " |" for row in (header, ruler, *rows)]


def note(results: dict[str, Any]) -> str:
    """Return a note on what the numbers are, and which versions and hardware they come from."""
    versions = results["with"]
    device = versions["gpu"] if versions["gpu"] != "none" else versions["cpu"]
    names = {row["recipe"]["data"]["name"] for row in results["results"]}
    metrics = sorted({METRICS.get(name, "unbiased") for name in names}, reverse=True)
    return (
        f"{'; '.join(METRIC_TITLES[each] for each in metrics)} on the test split, mean ± standard "
        f"deviation over seeds {', '.join(map(str, results['seeds']))}. Published: mean of four seeds. "
        f"{device}, torch {versions['torch']}, unspur {versions['unspur']}, {results['made']}. "
        "Seconds are the sum over the stages of a run. If several runs were trained side by side, each "
        "counts its part of the common time."
    )


NUMBERS = ("debiased", "ordinary", "pruned", "density", "precision", "recall", "seconds")


def comma_separated(results: dict[str, Any]) -> str:
    """Return one line per recipe: its settings, the published number, means and deviations as fractions."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = [f"{name}_{part}" for name in NUMBERS for part in ("mean", "sd")]
    writer.writerow(["recipe", "data", "method", "seeds", "published_percent", *columns])
    for row in results["results"]:
        recipe, summary = row["recipe"], row["summary"]
        known = number(recipe)
        words = (recipe["name"], data_of(recipe), kind(recipe))
        about = [*map(escape_cell, words), len(row["runs"])]
        numbers = [summary.get(name, {}).get(part) for name in NUMBERS for part in ("mean", "sd")]
        writer.writerow([*about, known, *numbers])
    return text.getvalue()


def latex(results: dict[str, Any]) -> str:
    """Return the table of methods and data sets for a paper; needs the booktabs package."""
    header, rows = pivot(results)
    lines = [" & ".join(map(_escape, row)) + r" \\" for row in (header, *rows)]
    return "\n".join(
        [
            rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def _escape(cell: str) -> str:
    for plain, tex in (("_", r"\_"), ("%", r"\%"), ("±", r"$\pm$"), ("–", "--")):
        cell = cell.replace(plain, tex)
    return cell
