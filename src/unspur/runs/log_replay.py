"""Replay the logged training of a finished run to a hook, such as a tracker."""

from __future__ import annotations

from ..stages.log_hook import LogHook, log_row
from .finished import Finished


def replay_log(run: Finished, hook: LogHook) -> None:
    """Call a hook for every logged step of every stage, in the order of the stages."""
    for name, stage in run.stages.items():
        for row in stage.log:
            if "step" in row:
                log_row(hook, name, row)
