"""skipped.csv: the images that could not be read, and why."""

from __future__ import annotations

import csv
from pathlib import Path

from ..data.splits import Splits


def save_skipped(splits: Splits, folder: Path) -> None:
    """List the images that could not be read."""
    path = folder / "skipped.csv"
    if not splits.skipped:
        path.unlink(missing_ok=True)  # of an earlier run
        return
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("path", "reason"), *splits.skipped.items()])
