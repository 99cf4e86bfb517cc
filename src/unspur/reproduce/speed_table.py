"""Tables of the speed benchmarks (`python -m benchmarks`) in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# The words of a column's name that are written differently on a page.
METRIC_TITLES = {"us": "µs", "mib": "MiB", "mb": "MB", "cpu": "CPU", "times": "ratio"}


def speed_table(rows: list[dict[str, Any]]) -> str:
    """Format rows as a table: numbers with three digits or as integers, a dash for missing ones."""
    if not rows:
        return "Not run."
    names = list(dict.fromkeys(name for row in rows for name in row))
    sides = ["---" if isinstance(rows[0].get(name), str) else "---:" for name in names]
    lines = [[_spoken(name) for name in names], sides]
    lines += [[_cell(row.get(name)) for name in names] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def machine_and_day(record: Mapping[str, Any]) -> str:
    """Return the machine, the version of torch and the day of a record of the benchmarks."""
    about = record["with"]
    machine = f"CPU ({about['cpu']})" if about["gpu"] == "none" else about["gpu"]
    return f"{machine}, torch {about['torch'].partition('+')[0]}, {record['made']}"


def _spoken(name: str) -> str:
    return " ".join(METRIC_TITLES.get(word, word) for word in name.split("_"))


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
