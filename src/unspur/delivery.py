"""What a finished run leaves behind: its folder, and the page about it."""

from __future__ import annotations

import warnings
from pathlib import Path

from . import runs
from .errors import ModelError
from .report import page
from .stages.context import Context, Made
from .stages.inspection import inspect
from .store import Artifact


def deliver(
    context: Context, made: Made, scores: Artifact, out: Path, *, command: str = ""
) -> Path | None:
    """Write the folder of a run and its report; the report's path, or None and a warning that says why.

    `command` is what the run was started with, so that the report can tell.
    """
    runs.save(context, made, scores, out)  # first: no trouble with pictures may cost the model
    runs.save_record(
        context, made, scores, out, inspected=_inspected(context, made), command=command
    )
    with context.show("report"):
        return _drawn(out, context.store.root)


def _inspected(context: Context, made: Made) -> Artifact | None:
    """The pictures for the report; a network that cannot be looked into is still a result."""
    try:
        with context.show("inspect"):
            return inspect(context, made)
    except (RuntimeError, ModelError) as error:
        reason = str(error).partition("\n")[0]
        warnings.warn(f"the report has no pictures of this network: {reason}.", stacklevel=3)
        return None


def _drawn(out: Path, store: Path) -> Path | None:
    try:
        return page.write(out, store)
    except ModuleNotFoundError as error:
        warnings.warn(f"no report.html was written: {error}.", stacklevel=3)
        return None
