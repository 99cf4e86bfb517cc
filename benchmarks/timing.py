"""Measure how long a training step takes, from the times that `fit_together` logs."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from unspur import masks, models
from unspur.data.batches import Preprocess, Resident
from unspur.data.splits import Split
from unspur.methods import ERM, MaskSearch
from unspur.training import sampling
from unspur.training.fit_options import FitOptions, Optimiser
from unspur.training.inputs import Training
from unspur.training.loop import fit_together
from unspur.training.method import Method


class Clock:
    """A checkpointer that only keeps the log. A row is logged after the device has finished the steps."""

    def __init__(self) -> None:
        self.rows: list[Mapping[str, Any]] = []

    def resume(self) -> None:
        return None

    def checkpoint(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        pass

    def log(self, row: Mapping[str, Any]) -> None:
        self.rows.append({**row, "cpu": time.process_time()})


@dataclass(frozen=True)
class Timed:
    """Microseconds of one step of one training, seconds of setup before the first step, and peak memory.

    `cpu_us` is the CPU time of the step.
    """

    step_us: float
    setup_s: float
    peak_mib: float | None
    cpu_us: float


def time_steps(trainings: Sequence[Training], *, steps: int = 200) -> Timed:
    """Measure a step: the fastest of four stretches, divided by the number of trainings side by side."""
    device = next(trainings[0].method.parameters()).device
    stretch = max(steps // 5, 1)
    clock = Clock()
    trainings = [
        replace(j, options=replace(j.options, steps=5 * stretch, log_every=stretch))
        for j in trainings
    ]
    _free(device)
    fit_together([replace(trainings[0], checkpointer=clock), *trainings[1:]])
    best, cpu = (_fastest(clock.rows, name) for name in ("seconds", "cpu"))
    setup = sum(row.get("setup_seconds", 0.0) for row in clock.rows)
    peak = torch.cuda.max_memory_allocated(device) / 2**20 if device.type == "cuda" else None
    microseconds = 1e6 / stretch / len(trainings)
    return Timed(best * microseconds, setup, peak, cpu * microseconds)


def _fastest(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    """Return the shortest stretch between two rows of the log; the first stretch warms up."""
    at = [row[name] for row in rows if "loss" in row]
    return float(min(b - a for a, b in itertools.pairwise(at)))


def _free(device: torch.device) -> None:
    gc.collect()
    torch._dynamo.reset()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def noise_images(n: int, size: int, classes: int = 10) -> Split:
    """Return images of random pixels. The time of a step does not depend on the content of an image."""
    g = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (n, 3, size, size), generator=g, dtype=torch.uint8)
    return Split(pixels, torch.randint(0, classes, (n,), generator=g))


def photographs(folder: Path, count: int, size: int) -> list[Path]:
    """Write JPEG files that take about as long to decode as photographs: smooth colours, some noise."""
    g = torch.Generator().manual_seed(0)
    paths = []
    for number in range(count):
        coarse = torch.rand(1, 3, 12, 12, generator=g)
        smooth = nn.functional.interpolate(coarse, (size, size), mode="bicubic")[0]
        grain = smooth + 0.02 * torch.randn(smooth.shape, generator=g)
        pixels = (grain.clamp(0, 1) * 255).to(torch.uint8).permute(1, 2, 0).numpy()
        paths.append(folder / f"{number:06d}.jpg")
        Image.fromarray(pixels).save(paths[-1], quality=85)
    return paths


def network(name: str, device: torch.device, **options: Any) -> nn.Module:
    """Return a built-in network for ten classes on a device, in channels-last format."""
    model = models.builder(name, 10, options).build(0)
    return model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def method(kind: str, model: nn.Module) -> Method:
    """Return a method for dense training, or one that learns masks with the complete debiasing loss."""
    if kind == "dense":
        return ERM(model)
    masks.attach(model)
    head = next(n for n, m in reversed(list(model.named_modules())) if isinstance(m, nn.Linear))
    return MaskSearch(model, head=head, sparsity=1e-9)


def training(
    kind: str, model: nn.Module, split: Split, *, batch: int, options: FitOptions | None = None
) -> Training:
    """Return a training on images that stay on the device, a third of which are suspects."""
    device = next(model.parameters()).device
    conflict = torch.arange(len(split)) % 3 == 0
    source = Resident(split, device=device, preprocess=Preprocess(), conflict=conflict)
    order = sampling.Weighted(torch.ones(len(split), device=device), batch=batch, seed=0)
    return Training(method(kind, model), source, order, options or OPTIONS)


OPTIONS = FitOptions(steps=1, optimiser=Optimiser(), precision="tf32")
