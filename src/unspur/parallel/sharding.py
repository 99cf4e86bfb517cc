"""A training step over several processes: networks see this process's rows, losses see the whole batch.

Within `sharded_step` the outermost module that is called on images runs on the rows of this process. Its
output is gathered from all processes, with gradients. So every process computes a method's loss of the whole
batch, and methods need no code for it. Batch norm takes its statistics over all processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from .exchange import GatheredRows, gather_rows
from .synchronised import SynchronisedLayers
from .team import Rows, Team

_steps: list[ShardedStep] = []


class ShardedStep:
    """The hooks of one step. They ignore modules inside a network and `method` itself."""

    def __init__(self, rows: Rows, method: nn.Module | None, *, whole_images: bool):
        self.rows, self.method, self.whole_images = rows, method, whole_images
        self.depth = 0
        self.gathers = False

    def enter(self, module: nn.Module, args: Any) -> Any:
        """Replace the images of a network's input by the rows of this process."""
        if module is self.method:
            return None
        self.depth += 1
        if self.depth > 1 or not args or not _are_images(args[0]):
            return None
        images, rows = args[0], self.rows
        self.gathers = len(images) in (rows.total, len(rows))
        return (images[rows.slice], *args[1:]) if len(images) == rows.total else None

    def leave(self, module: nn.Module, args: Any, output: Any) -> Any:
        """Gather the output of a network from all processes."""
        if module is self.method:
            return None
        self.depth -= 1
        if self.depth or not self.gathers:
            return None
        self.gathers = False
        return self.gather(output)

    def gather(self, output: Any) -> Any:
        """Return the rows of all processes, for a tensor or for each tensor of a tuple."""
        if isinstance(output, tuple | list):
            return tuple(self.gather(each) for each in output)
        if not isinstance(output, Tensor):
            return output
        return GatheredRows.apply(output, self.rows)  # type: ignore[no-untyped-call]


def _are_images(x: object) -> bool:
    return isinstance(x, Tensor) and x.ndim == 4


@contextmanager
def sharded_step(
    team: Team, total: int, method: nn.Module | None = None, *, whole_images: bool = False
) -> Iterator[None]:
    """Divide a batch of `total` images over the team within the block.

    With `whole_images` the data sources give every process all images of the batch, which losses that mix
    images need.
    """
    step = ShardedStep(team.rows(total), method, whole_images=whole_images)
    hooks = register_module_forward_pre_hook(step.enter), register_module_forward_hook(step.leave)
    _steps.append(step)
    try:
        with SynchronisedLayers(step.rows):
            yield
    finally:
        _steps.pop()
        for hook in hooks:
            hook.remove()


def own_rows(total: int) -> Rows | None:
    """Return this process's rows of the batch in a sharded step, and None otherwise."""
    if not _steps or _steps[-1].rows.total != total:
        return None
    return _steps[-1].rows


def wants_whole_images() -> bool:
    """Return whether the loss of this step mixes images of the batch."""
    return bool(_steps) and _steps[-1].whole_images


def gather_batch(own: Tensor, rows: Rows) -> Tensor:
    """Return the pixels of the whole batch, given those of this process's rows."""
    return gather_rows(own, rows)


def gather_features(features: Tensor) -> Tensor:
    """Return the features of the whole batch, given those of this process's rows."""
    found: Tensor = _steps[-1].gather(features) if _steps else features
    return found
