"""Measure how the time of a training step on a CPU is divided between kinds of operations."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from unspur import masks
from unspur.methods import ERM, Amplified, Debiased, MaskSearch
from unspur.recipes.loading import Recipe
from unspur.training.loop_state import Loop
from unspur.training.method import Method

KINDS = {
    "convolutions_and_products": ("convolution", "mm", "linear"),
    "batch_norm": ("batch_norm",),
    "relu": ("clamp_min", "threshold", "relu"),
    "optimiser": ("fused_", "Optimizer", "foreach"),
}


def demo_method(stage: str, model: nn.Module, settings: Recipe) -> Method:
    """Return the method of a stage of the demo."""
    if stage == "mine":
        return Amplified(model)
    if stage == "pretrain":
        return ERM(model)
    if stage == "prune":
        masks.attach(model, noise=settings.prune.noise)
        return MaskSearch(model, head="head", sparsity=1e-8, align=settings.prune.align)
    weights = {name: p for name, p in model.named_parameters() if p.dim() > 1}
    keep = {name: torch.rand_like(p) < 0.2 for name, p in weights.items()}
    masks.apply(model, keep, drop=settings.finetune.drop)
    return Debiased(model, head="head", align=settings.finetune.align)


def profile_step(loop: Loop, indices: Tensor) -> dict[str, Any]:
    """Return the milliseconds of a step, and the share of each kind of operation in it."""
    for index in indices[:8]:
        loop.advance(index)
    began = time.perf_counter()
    for index in indices[8:16]:
        loop.advance(index)
    seconds = (time.perf_counter() - began) / 8
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for index in indices[16:]:
            loop.advance(index)
    times: Counter[str] = Counter()
    for event in profiler.key_averages():
        times[_kind(event.key)] += event.self_cpu_time_total
    total = times.total()
    return {"ms": 1000 * seconds, **{kind: times[kind] / total for kind in (*KINDS, "other")}}


def _kind(operation: str) -> str:
    for kind, names in KINDS.items():
        if any(name in operation for name in names):
            return kind
    return "other"
