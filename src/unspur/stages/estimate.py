"""Estimate the time and disk of a run from a few measured training steps."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cache, partial

import torch

from ..methods import ERM
from ..training.loop import fit
from ..training.sampling import Passes
from ..training.sections import TrainingSettings
from .context import Context
from .driver import Run
from .mine import mining_before

MINED_BYTES = 9  # of the suspects, for each sample


@dataclass(frozen=True)
class Estimate:
    """The steps of one stage, whether it is stored, and its seconds and bytes if it is not."""

    stage: str
    steps: int
    stored: bool
    seconds: float
    disk: int


def estimate(run: Run) -> list[Estimate]:
    """Return for each stage whether it is stored, and if not, what it would cost."""
    run.check()
    context = run.context
    network = sum(t.numel() * t.element_size() for t in context.initial.values())
    seconds_of = cache(partial(step_seconds, context))
    rows = []
    for name, key in run.keys.items():
        settings, stored = context.recipe.table(name), key.stored
        steps = settings.steps if isinstance(settings, TrainingSettings) else 0
        if name == "mine" and context.corrections is not None and mining_before(context):
            steps = 0  # the scores of the mining before the corrections are used
        seconds = 0.0
        if name == "mine" and context.miner is not None:
            # A judge has trained these networks by then.
            steps, seconds = (0, 0.0) if stored or context.judge else context.miner.cost()
        elif not stored and isinstance(settings, TrainingSettings):
            seconds = key.stage.cost * steps * seconds_of(settings.batch)
        disk = key.stage.copies * network
        disk += MINED_BYTES * len(context.splits.train) * (name == "mine")
        rows.append(Estimate(name, steps, stored, seconds, disk))
    return rows


def step_seconds(context: Context, batch: int) -> float:
    """Return the seconds of one plain step: a long trial less a short one, so start-up does not count."""
    method = context.place(ERM(context.network(context.initial)))
    among = torch.arange(len(context.splits.train), device=context.device)
    order = Passes(among, batch=batch, seed=0)
    source, recipe = context.source(context.splits.train), context.recipe
    options = recipe.pretrain.options(
        precision=recipe.precision, deterministic=recipe.deterministic
    )
    few = 50 if context.device.type == "cuda" else 2
    seconds = []
    for steps in (few, few, 3 * few):  # the first one warms up
        began = time.perf_counter()
        fit(method, source, order, replace(options, steps=steps))  # its end waits for the device
        seconds.append(time.perf_counter() - began)
    return max(seconds[2] - seconds[1], 0.0) / (2 * few)
