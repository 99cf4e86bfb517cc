"""What a finished run leaves behind: its folder, and the page about it."""

from __future__ import annotations

import warnings
from pathlib import Path

from . import bundle
from .errors import ModelError
from .inspection import inspect
from .lab import Lab, Made
from .report import page
from .store import Artifact


def deliver(lab: Lab, made: Made, scores: Artifact, out: Path, *, command: str = "") -> Path | None:
    """Write the folder of a run and its report; the report's path, or None and a warning that says why.

    `command` is what the run was started with, so that the report can tell.
    """
    bundle.save(lab, made, scores, out)  # first: no trouble with pictures may cost the model
    bundle.save_record(lab, made, scores, out, inspected=_inspected(lab, made), command=command)
    with lab.show("report"):
        return _drawn(out, lab.store.root)


def _inspected(lab: Lab, made: Made) -> Artifact | None:
    """The pictures for the report; a network that cannot be looked into is still a result."""
    try:
        with lab.show("inspect"):
            return inspect(lab, made)
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
