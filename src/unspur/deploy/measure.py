"""Measure the costs of a model: parameters, multiply–adds, latency."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from ..masks.multiply_adds import multiply_adds

BATCHES = (1, 32)
LEAST_PASSES = 9  # of a median


@dataclass(frozen=True)
class ModelCost:
    """The costs of a model; `milliseconds` is by batch size."""

    parameters: int
    multiply_adds: int
    milliseconds: Mapping[int, float]

    def as_json(self) -> dict[str, Any]:
        """Return the numbers for export.json."""
        times = {str(batch): round(ms, 4) for batch, ms in self.milliseconds.items()}
        return {
            "parameters": self.parameters,
            "multiply_adds": self.multiply_adds,
            "milliseconds": times,
        }


def costs(
    models: Mapping[str, nn.Module], x: Tensor, *, seconds: float = 1.0
) -> dict[str, ModelCost]:
    """Measure the costs of several models in turn; `x` is network input."""
    times = latencies(models, x, seconds=seconds)
    return {
        name: ModelCost(
            sum(p.numel() for p in model.parameters()), multiply_adds(model, x), times[name]
        )
        for name, model in models.items()
    }


@torch.no_grad()
def latencies(
    runs: Mapping[str, Callable[[Tensor], Any]],
    x: Tensor,
    *,
    seconds: float = 1.0,
    batches: Sequence[int] = (),
    most_passes: float = math.inf,
) -> dict[str, dict[int, float]]:
    """Return the median milliseconds of a forward pass at each batch size.

    The models run alternately, so that other load on the machine affects all of them. Each runs for about
    `seconds` at each batch size (by default BATCHES), at least LEAST_PASSES and at most `most_passes` times.
    """
    medians: dict[str, dict[int, float]] = {name: {} for name in runs}
    for batch in batches or BATCHES:
        images = x.repeat(-(-batch // len(x)), *[1] * (x.dim() - 1))[:batch].contiguous()
        times: dict[str, list[float]] = {name: [] for name in runs}
        for run in runs.values():
            run(images)  # warm-up
        end = time.perf_counter() + seconds * len(runs)
        for count in itertools.count():
            if count >= most_passes or (count >= LEAST_PASSES and time.perf_counter() >= end):
                break
            for name, run in runs.items():
                began = time.perf_counter()
                run(images)
                times[name].append(1000 * (time.perf_counter() - began))
        for name, each in times.items():
            medians[name][batch] = median(each)
    return medians
