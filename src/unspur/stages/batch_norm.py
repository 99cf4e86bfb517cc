"""Re-estimate batch-norm statistics after weights were changed without training."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import nn

from ..data.batches import Source
from ..parallel import current, sharded_step
from ..training import sampling
from ..training.numerics import on_device


@torch.no_grad()
def refresh_batch_norm(
    model: nn.Module, source: Source, order: sampling.Order, *, first: int, batches: int
) -> None:
    """Re-estimate batch-norm statistics in place. Does nothing if `batches` is 0."""
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if not norms or not batches:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain average over the batches
    model.eval()  # no dropout
    for norm in norms:
        norm.train()
    step = torch.tensor(first, device=source.targets.device)
    team = current()
    with on_device(step.device):
        for offset, index in enumerate(order.draw(first, batches)):
            with sharded_step(team, len(index)) if team else nullcontext():
                model(source.batch(index, step + offset).x)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
