"""How long a run would take and how much disk, measured on a few steps of the real thing."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cache, partial

import torch

from ..methods import ERM
from ..training.loop import fit
from ..training.sampling import Passes
from .context import Context

# How many plain steps a step of a stage costs, and how many networks are kept of it, roughly.
COST = {
    "mine": (1.0, 0),
    "prune": (1.3, 3),
    "control": (1.0, 2),
    "finetune": (1.3, 1),
    "lff": (2.0, 1),
    "disent": (2.0, 2),
    "rebias": (3.0, 1),
}


@dataclass(frozen=True)
class Estimate:
    """One stage of a plan."""

    stage: str
    steps: int
    stored: bool
    seconds: float
    disk: int


def estimate(context: Context) -> list[Estimate]:
    """Each stage: is it stored, and if not, what would it cost?"""
    bytes_ = sum(t.numel() * t.element_size() for t in context.initial.values())
    rows = []
    seconds_of = cache(partial(step_seconds, context))
    for ingredients in context.plan():
        stage = ingredients["stage"]
        settings = getattr(context.recipe, stage)
        stored = context.store.path(ingredients).exists()
        slow, copies = COST.get(stage, (1.0, 1))
        steps = getattr(settings, "steps", 0)
        seconds = 0.0 if stored or not steps else slow * steps * seconds_of(settings.batch)
        disk = copies * bytes_ + 9 * len(context.splits.train) * (stage == "mine")
        rows.append(Estimate(stage, steps, stored, seconds, disk))
    return rows


def step_seconds(context: Context, batch: int) -> float:
    """Seconds of one plain step: a long trial less a short one, so that starting up does not count."""
    method = context.place(ERM(context.network(context.initial)))
    order = Passes(
        torch.arange(len(context.splits.train), device=context.device), batch=batch, seed=0
    )
    source = context.source(context.splits.train)
    recipe = context.recipe
    plan = recipe.pretrain.options(precision=recipe.precision, deterministic=recipe.deterministic)
    few = 50 if context.device.type == "cuda" else 2
    seconds = []
    for steps in (few, few, 3 * few):  # the first one warms up
        began = time.perf_counter()
        fit(method, source, order, replace(plan, steps=steps))  # its end waits for the device
        seconds.append(time.perf_counter() - began)
    return max(seconds[2] - seconds[1], 0.0) / (2 * few)
