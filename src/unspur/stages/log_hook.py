"""A hook that receives losses and scores while they are measured, to send them to a tracker."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, Protocol

ASIDE = ("step", "seconds", "setup_seconds")  # of a row of the log: not metrics
EVALUATE = "evaluate"


class LogHook(Protocol):
    """Receives metrics: the stage ("pretrain"), the step within it, and values by name."""

    def __call__(self, stage: str, step: int, values: Mapping[str, float], /) -> None: ...


def log_row(hook: LogHook, stage: str, row: Mapping[str, Any]) -> None:
    """Send the metrics of one row of a stage's log."""
    if values := metrics(row):
        hook(stage, int(row["step"]), values)


def metrics(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics of one row of a stage's log, by name."""
    return {name: float(value) for name, value in row.items() if name not in ASIDE}


def log_scores(hook: LogHook, scores: Mapping[str, Any]) -> None:
    """Send the accuracies of every model of a run, named as `debiased/unbiased`."""
    values = {
        f"{model}/{name}": float(value)
        for model in ("ordinary", "pruned", "debiased")
        for name, value in (scores.get(model) or {}).items()
        if isinstance(value, int | float) and math.isfinite(value)
    }
    hook(EVALUATE, 0, values)


def tolerant(hook: LogHook) -> LogHook:
    """Return a hook that warns at the first error of another one and then stays silent."""
    failed = False

    def call(stage: str, step: int, values: Mapping[str, float], /) -> None:
        nonlocal failed
        if failed:
            return
        try:
            hook(stage, step, values)
        except Exception as error:  # a tracker that is down must not stop a training
            failed = True
            reason = f"{type(error).__name__}: {error}"
            warnings.warn(f"on_log raised {reason}. It is not called again.", stacklevel=2)

    return call
