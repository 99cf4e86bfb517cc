"""Read from the environment how a launcher such as torchrun has started this process."""

from __future__ import annotations

import os


def launched_rank() -> int:
    """Return the rank that a launcher such as torchrun gave this process; 0 without a launcher."""
    return int(os.environ["RANK"]) if is_launched() else 0


def is_launched() -> bool:
    """Return whether a launcher has started this process as one of several."""
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return all(name in os.environ for name in names) and int(os.environ["WORLD_SIZE"]) > 1
