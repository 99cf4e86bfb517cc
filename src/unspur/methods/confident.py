"""Cross entropy over confident samples only, used by the epoch-ensemble miner."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..data.batches import Batch
from ..training import losses
from .erm import ERM


class Confident(ERM):
    """Minimise cross entropy over samples whose label has p > eta, after `warm_up` steps over all samples.

    Without a warm-up a class whose samples start with p < eta may never be learned.
    """

    def __init__(self, model: nn.Module, *, eta: float = 0.05, warm_up: int = 0):
        super().__init__(model)
        self.eta, self.warm_up = eta, warm_up

    def forward(self, batch: Batch, player: str) -> dict[str, Tensor]:
        eta = torch.where(batch.step < self.warm_up, -1.0, self.eta) if self.warm_up else self.eta
        loss = losses.confident_cross_entropy(self.model(batch.x), batch.y, eta=eta)
        return {"cross_entropy": loss}
