"""How long a run would take and how much disk, measured on a few steps of the real thing."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import torch

from .lab import Lab
from .methods import ERM
from .sampling import Passes
from .train import fit

TRIAL_STEPS = 4
MASKED = 1.3  # a step with masks costs this many plain ones, roughly


@dataclass(frozen=True)
class Estimate:
    """One stage of a plan."""

    stage: str
    steps: int
    stored: bool
    seconds: float
    disk: int


def estimate(lab: Lab) -> list[Estimate]:
    """Each stage: is it stored, and if not, what would it cost?"""
    bytes_ = sum(t.numel() * t.element_size() for t in lab.initial.values())
    factor = {"mine": (1.0, 0), "pretrain": (1.0, 1), "prune": (MASKED, 3), "finetune": (MASKED, 1)}
    rows = []
    for ingredients in lab.plan():
        stage = ingredients["stage"]
        settings = getattr(lab.recipe, stage)
        stored = lab.store.path(ingredients).exists()
        slow, copies = factor[stage]
        seconds = 0.0 if stored else slow * settings.steps * _step_seconds(lab, settings.batch)
        disk = copies * bytes_ + 9 * len(lab.splits.train) * (stage == "mine")
        rows.append(Estimate(stage, settings.steps, stored, seconds, disk))
    return rows


def _step_seconds(lab: Lab, batch: int) -> float:
    method = lab.place(ERM(lab.network(lab.initial)))
    order = Passes(torch.arange(len(lab.splits.train), device=lab.device), batch=batch, seed=0)
    source = lab.source(lab.splits.train)
    plan = replace(lab.recipe.pretrain.plan(precision=lab.recipe.precision), steps=TRIAL_STEPS)
    fit(method, source, order, plan)  # warm up
    began = time.perf_counter()
    fit(method, source, order, plan)  # its last line waits for the device
    return (time.perf_counter() - began) / TRIAL_STEPS
