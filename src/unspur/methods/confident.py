"""Confident picking: learn only from samples the network half believes already (epoch-ensemble miner)."""

from __future__ import annotations

from torch import Tensor, nn

from ..data.batches import Batch
from ..training import losses
from .erm import ERM


class Confident(ERM):
    """Minimise cross entropy over the samples with p > eta."""

    def __init__(self, model: nn.Module, *, eta: float = 0.05):
        super().__init__(model)
        self.eta = eta

    def forward(self, batch: Batch, player: str) -> dict[str, Tensor]:
        return {
            "cross_entropy": losses.confident_cross_entropy(
                self.model(batch.x), batch.y, eta=self.eta
            )
        }
