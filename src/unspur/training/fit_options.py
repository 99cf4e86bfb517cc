"""Options of a training: its length, its optimiser, and how the loop runs it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from .fused_optimisers import FusedAdam, FusedOptimiser, FusedSGD, Group
from .numerics import Precision


@dataclass(frozen=True)
class Optimiser:
    """An optimiser and its learning rate over time."""

    name: Literal["adam", "sgd"] = "adam"
    rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.99)
    momentum: float = 0.9
    weight_decay: float = 0.0
    schedule: Literal["constant", "step", "cosine"] = "constant"
    decay_every: int = 0
    decay_from: int = 0  # the step from which `decay_every` counts
    decay_by: float = 0.1
    warmup: int = 0  # steps over which the rate rises to its full value
    head_first: int = 0  # steps in which only the head is trained

    def build(self, parameters: Sequence[nn.Parameter], body: int = 0) -> FusedOptimiser:
        """Return the optimiser; the first `body` parameters are frozen for `head_first` steps.

        If there are no others, because the user has frozen the head, all are trained from the first step on.
        """
        frozen = body if self.head_first and body < len(parameters) else 0
        groups = [self._group(parameters[frozen:])]
        if frozen:
            groups.insert(0, self._group(parameters[:frozen], since=self.head_first))
        if self.name == "sgd":
            return FusedSGD(groups, momentum=self.momentum, weight_decay=self.weight_decay)
        return FusedAdam(groups, betas=self.betas, weight_decay=self.weight_decay)

    def _group(self, parameters: Sequence[nn.Parameter], since: int = 0) -> Group:
        """Return a group whose rate is a tensor on a GPU, of the only type that torch's kernels take."""
        rate: float | Tensor = self.rate
        if parameters[0].is_cuda:
            rate = torch.tensor(self.rate, device=parameters[0].device, dtype=torch.float32)
        return Group(parameters, rate, since)

    def rate_at(self, step: int, steps: int, *, since: int = 0) -> float:
        """Return the learning rate of a step, for parameters that are trained from step `since` on."""
        factor = min(1.0, (step - since + 1) / (self.warmup + 1)) if step >= since else 0.0
        return factor * self._schedule_rate(step, steps)

    def _schedule_rate(self, step: int, steps: int) -> float:
        """Return the learning rate of a step without a warm-up."""
        if self.schedule == "step" and self.decay_every:
            return self.rate * self.decay_by ** (max(0, step - self.decay_from) // self.decay_every)
        if self.schedule == "cosine":
            return self.rate * 0.5 * (1 + math.cos(math.pi * step / steps))
        return self.rate


@dataclass(frozen=True)
class FitOptions:
    """Options of `fit`: the length of training, the optimiser, precision, logging and checkpoints."""

    steps: int
    optimiser: Optimiser
    precision: Precision = "fp32"
    deterministic: bool = True
    log_every: int = 100
    checkpoint_every: int = 1000
    checkpoint_seconds: float = 0.0  # least time between two checkpoints
    seed: int = 0  # for layers that draw from torch's random stream, such as dropout
    capture: bool = True  # on a GPU: record a step once, then replay it
    compile: bool = False  # fuse the step's operations with torch.compile first
