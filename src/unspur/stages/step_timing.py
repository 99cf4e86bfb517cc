"""Measure how long a training step takes on this machine under its current load."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from ..data.batches import Source
from ..methods import ERM
from ..parallel import broadcast_first
from ..training.fit_options import FitOptions
from ..training.loop import fit
from ..training.method import Method
from ..training.sampling import Passes
from .context import Context
from .trainings import training_source

WARM_UP, LEAST, MOST = 2, 4, 100  # steps before timing, and bounds on the number of timed steps
SECONDS = 1.0  # for timing steps, within these bounds
ON_GPU = 50  # steps of the short trial on a GPU


class _EnoughError(Exception):
    """Raised to end a trial."""


class StepTimer:
    """A watcher that records the time of each step, and ends the training after enough steps.

    With several processes, the clock of the first one decides.
    """

    every = 1

    def __init__(self) -> None:
        self.ends: list[float] = []

    def __call__(self, method: Method, step: int) -> Mapping[str, float]:
        self.ends.append(time.perf_counter())
        timed = len(self.ends) - WARM_UP
        if timed >= LEAST and broadcast_first(timed >= MOST or self._spent() >= SECONDS):
            raise _EnoughError
        return {}

    def _spent(self) -> float:
        """Return the seconds since the end of the warm-up steps."""
        return self.ends[-1] - self.ends[WARM_UP - 1]

    @property
    def seconds(self) -> float:
        """The mean seconds of a step after the warm-up, including delays by other programs."""
        return self._spent() / (len(self.ends) - WARM_UP)

    def state(self) -> dict[str, Tensor]:
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        pass


def step_seconds(context: Context, batch: int, *, mixes: bool = False) -> float:
    """Return the seconds of one ordinary step; `mixes`: with the recipe's mixing of images."""
    method = context.place(ERM(context.network(context.initial)))
    among = torch.arange(len(context.splits.train), device=context.device)
    order = Passes(among, batch=batch, seed=0)
    source, recipe = training_source(context, 0, mixes=mixes), context.recipe
    options = recipe.pretrain.options(
        precision=recipe.precision, deterministic=recipe.deterministic
    )
    if context.device.type == "cuda":
        return _seconds_on_gpu(method, source, order, options)
    timer = StepTimer()
    try:
        options = replace(options, steps=WARM_UP + MOST + 1)
        fit(method, source, order, options, watchers=[timer])
    except _EnoughError:
        pass
    return timer.seconds


def _seconds_on_gpu(method: Method, source: Source, order: Passes, options: FitOptions) -> float:
    """Return the time of a step: a long trial minus a short one, which excludes the time to record it."""
    seconds = []
    for steps in (ON_GPU, ON_GPU, 3 * ON_GPU):  # the first trial is a warm-up
        began = time.perf_counter()
        fit(method, source, order, replace(options, steps=steps))
        seconds.append(time.perf_counter() - began)  # the end of a training waits for the device
    return max(seconds[2] - seconds[1], 0.0) / (2 * ON_GPU)
