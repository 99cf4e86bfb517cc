"""Bias amplification: generalised cross entropy (GCE), which favours easy samples (LfF, 2020)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..data.batches import Batch
from ..training import losses
from .erm import ERM


class Amplified(ERM):
    """Minimise GCE, after `warm_up` steps of cross entropy.

    `released` uses the detached form of the authors' released code. GCE gives little weight to samples
    whose label has a small probability p. Without a warm-up, a class that starts with a small p may never
    be learned.
    """

    def __init__(
        self, model: nn.Module, *, q: float = 0.7, released: bool = True, warm_up: int = 0
    ):
        super().__init__(model)
        self.q, self.warm_up = q, warm_up
        self.loss = losses.gce_released if released else losses.gce

    def forward(self, batch: Batch, player: str) -> dict[str, Tensor]:
        logits = self.model(batch.x)
        gce = self.loss(logits, batch.y, q=self.q).mean()
        if not self.warm_up:
            return {"gce": gce}
        plain = losses.cross_entropy(logits, batch.y).mean()
        return {"gce": torch.where(batch.step < self.warm_up, plain, gce)}
