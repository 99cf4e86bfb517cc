"""Replay the logged training of a finished run to a tracker."""

from __future__ import annotations

from pathlib import Path

from ..runs.finished import Finished
from ..stages.log_hook import log_row
from ..trackers import open_tracker


def write_events(run: Finished, folder: Path) -> list[str]:
    """Write one TensorBoard run per stage into a folder; return the names of stages that have a log."""
    logs = {
        name: rows
        for name, stage in run.stages.items()
        if (rows := [row for row in stage.log if "step" in row])
    }
    with open_tracker(f"tensorboard:{folder}") as tracker:
        for name, rows in logs.items():
            for row in rows:
                log_row(tracker, name, row)
    return list(logs)
