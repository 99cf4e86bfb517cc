"""Choose the stages that are trained at the same time on a CPU.

A small network gains little from a second thread. The miner and the ordinary model do not need each other's
results, so their stages share the threads, with one thread for each. Their results are therefore those of
one thread on any machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext

import torch

from ..parallel import process_count
from ..training.numerics import one_thread
from .context import Context

SMALL_NETWORK = "convnet"
TOGETHER = ("mine", "pretrain")


def stage_groups(context: Context) -> list[tuple[str, ...]]:
    """Return the stages of a plan in order, in groups that are trained at the same time."""
    names = context.recipe.stages
    if names[: len(TOGETHER)] != TOGETHER or not _shares_threads(context):
        return [(name,) for name in names]
    return [TOGETHER, *((name,) for name in names[len(TOGETHER) :])]


def _shares_threads(context: Context) -> bool:
    """Return whether mining trains a small network of its own, and there is a thread for each stage."""
    recipe = context.recipe
    trains_miner = context.miner is None and context.judge is None and recipe.mine.how != "oracle"
    small = context.builder.how.get("name") == SMALL_NETWORK and not recipe.compile
    on_cpu = context.device.type == "cpu" and process_count() == 1
    return trains_miner and small and on_cpu and torch.get_num_threads() >= len(TOGETHER)


def group_of(context: Context, stage: str) -> tuple[str, ...]:
    """Return the group of a stage of the plan."""
    return next((group for group in stage_groups(context) if stage in group), (stage,))


def lanes(context: Context, group: tuple[str, ...]) -> int:
    """Return how many stages of a group are trained at a time: one if a tracker expects them in order."""
    return 1 if context.on_log is not None else len(group)


def threads_of(group: tuple[str, ...]) -> AbstractContextManager[None]:
    """Use one thread for each stage of a group, or all threads for a single stage."""
    return one_thread() if len(group) > 1 else nullcontext()


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
