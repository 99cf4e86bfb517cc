"""Open the cluster that the options of a command describe."""

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
    """Return the cluster of the options; by default every group has one GPU, or none on the CPU."""
    if device is not None and ":" in device:
        raise UsageError(f"--device {device}: the cluster itself assigns GPUs. Use --device cuda.")
    kind = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if kind == "cpu" and gpus:
        raise UsageError(f"--gpus-per-group {gpus:g}: the device is the CPU. Add --device cuda.")
    share = gpus if gpus is not None else float(kind != "cpu")
    return RayPool(address, cpus, share, show)
