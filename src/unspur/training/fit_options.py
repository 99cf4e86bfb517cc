"""How a training goes: its length, its optimiser, and how the loop runs it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

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
    decay_from: int = 0  # the first step whose decays are counted
    decay_by: float = 0.1
    warmup: int = 0  # steps over which the rate rises to its value
    head_first: int = 0  # steps in which the body of a player stands still

    def build(self, parameters: Sequence[nn.Parameter], body: int = 0) -> torch.optim.Optimizer:
        """Return the optimiser; the first `body` parameters wait for `head_first` steps."""
        # One fused kernel over all parameters. On a GPU the rate is a tensor, so that a captured
        # step follows the schedule.
        device = parameters[0].device
        cuda = device.type == "cuda"
        rate = torch.tensor(self.rate, device=device) if cuda else self.rate
        options: dict[str, Any] = {"lr": rate, "weight_decay": self.weight_decay, "fused": True}
        groups: Any = parameters
        if body and self.head_first:
            waiting = rate.clone() if isinstance(rate, Tensor) else rate
            groups = [{"params": parameters[:body], "lr": waiting, "since": self.head_first}]
            groups += [{"params": parameters[body:], "since": 0}]
        if self.name == "sgd":
            return torch.optim.SGD(groups, momentum=self.momentum, **options)
        return torch.optim.Adam(groups, betas=self.betas, capturable=cuda, **options)

    def rate_at(self, step: int, steps: int, *, since: int = 0) -> float:
        """Return the learning rate of a step, of parameters that are trained since another step."""
        warm = min(1.0, (step - since + 1) / (self.warmup + 1)) if step >= since else 0.0
        return warm * self._scheduled(step, steps)

    def _scheduled(self, step: int, steps: int) -> float:
        """Return the learning rate of a step without a warm-up."""
        if self.schedule == "step" and self.decay_every:
            return self.rate * self.decay_by ** (max(0, step - self.decay_from) // self.decay_every)
        if self.schedule == "cosine":
            return self.rate * 0.5 * (1 + math.cos(math.pi * step / steps))
        return self.rate


@dataclass(frozen=True)
class FitOptions:
    """How long and how `fit` trains: everything but what is minimised and on what."""

    steps: int
    optimiser: Optimiser
    precision: Precision = "fp32"
    deterministic: bool = True
    log_every: int = 100
    checkpoint_every: int = 1000
    checkpoint_seconds: float = 0.0  # do not checkpoint sooner after the last time
    seed: int = 0  # of what layers draw from torch's own stream, such as dropout
    capture: bool = True  # on a GPU: record a step once, then replay it
    compile: bool = False  # fuse the step's operations with torch.compile first
