"""From the options of a command to the cluster that they ask for."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..cluster import PoolState, RayPool
from ..errors import UsageError


def open_pool(
    address: str,
    device: str | None,
    cpus: float,
    gpus: float | None,
    show: Callable[[PoolState], None],
) -> RayPool:
    """Return the cluster that options name; a group has a GPU to itself unless they say otherwise."""
    if device is not None and ":" in device:
        raise UsageError(
            f"--device {device}: a cluster hands out its GPUs itself. Give --device cuda."
        )
    kind = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if kind == "cpu" and gpus:
        raise UsageError(
            f"--gpus-per-group {gpus:g}: the device is the CPU. Give --device cuda as well."
        )
    share = gpus if gpus is not None else float(kind != "cpu")
    return RayPool(address, cpus, share, show)
