"""Choose the stages that are trained at the same time.

The miner and the ordinary model do not need each other's results. On a CPU a small network gains little from
a second thread, so their stages share the threads, with one thread for each. Their results are therefore
those of one thread on any machine. On a GPU, steps on small images leave most of it idle, so both stages
advance side by side. Each gives the same bits as alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext

import torch

from ..parallel import process_count
from ..training.numerics import one_thread
from .context import Context

SMALL_NETWORK = "convnet"
SMALL_STEP = 2 * 256 * 64 * 64  # pixels of a batch of both stages, which leave room on any GPU
TOGETHER = ("mine", "pretrain")


def stage_groups(context: Context) -> list[tuple[str, ...]]:
    """Return the stages of a plan in order, in groups that are trained at the same time."""
    names = context.recipe.stages
    if names[: len(TOGETHER)] != TOGETHER or not _trains_both(context):
        return [(name,) for name in names]
    return [TOGETHER, *((name,) for name in names[len(TOGETHER) :])]


def _trains_both(context: Context) -> bool:
    """Return whether mining trains a network of its own, beside which the device can train another."""
    trains_miner = (
        context.miner is None and context.judge is None and context.recipe.mine.how != "oracle"
    )
    if not trains_miner or process_count() > 1:
        return False
    return _fits_on_gpu(context) if context.device.type == "cuda" else _shares_threads(context)


def _shares_threads(context: Context) -> bool:
    """Return whether the network is small, and there is a CPU thread for each stage."""
    small = context.builder.how.get("name") == SMALL_NETWORK and not context.recipe.compile
    return small and context.device.type == "cpu" and torch.get_num_threads() >= len(TOGETHER)


def _fits_on_gpu(context: Context) -> bool:
    """Return whether the steps of both stages are small, and no tracker expects them in order."""
    images = context.recipe.mine.batch + context.recipe.pretrain.batch
    _, height, width = context.splits.train.shape
    return context.on_log is None and images * height * width <= SMALL_STEP


def group_of(context: Context, stage: str) -> tuple[str, ...]:
    """Return the group of a stage of the plan."""
    return next((group for group in stage_groups(context) if stage in group), (stage,))


def lanes(context: Context, group: tuple[str, ...]) -> int:
    """Return how many stages of a group share the CPU: one if a tracker expects them in order."""
    return 1 if context.on_log is not None or context.device.type != "cpu" else len(group)


def threads_of(context: Context, group: tuple[str, ...]) -> AbstractContextManager[None]:
    """Use one CPU thread for each stage of a group, or all threads for a single stage."""
    return one_thread() if len(group) > 1 and context.device.type == "cpu" else nullcontext()


def group_name(group: Iterable[str]) -> str:
    """Return the name of a group for the progress display."""
    return ", ".join(group)


def group_costs(context: Context, costs: Mapping[str, float]) -> dict[str, float]:
    """Return the costs of stages by the names of their groups, with the costs of everything else."""
    found: dict[str, float] = {}
    for name, cost in costs.items():
        group = group_name(group_of(context, name))
        found[group] = found.get(group, 0.0) + cost
    return found
