"""Write the logs of the stages as TensorBoard event files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import UnspurError
from ..runs.finished import Finished

NOT_SCALARS = ("step", "seconds", "setup_seconds")


def write_events(run: Finished, folder: Path) -> list[str]:
    """Write one TensorBoard run per stage into a folder; return the names of the stages with a log."""
    logs = {
        name: rows
        for name, stage in run.stages.items()
        if (rows := [row for row in stage.log if "step" in row])
    }
    for name, rows in logs.items():
        with _writer(folder / name) as writer:
            for row in rows:
                for key, value in row.items():
                    if key not in NOT_SCALARS:
                        writer.add_scalar(key, value, row["step"])
    return list(logs)


def _writer(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UnspurError(
            "--tensorboard needs tensorboard, which is not installed. Run: pip install tensorboard"
        ) from None
    return SummaryWriter(str(folder))
