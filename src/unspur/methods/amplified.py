"""Bias amplification: generalised cross entropy, which follows what is easy to learn (LfF, 2020)."""

from __future__ import annotations

from torch import Tensor, nn

from ..data.batches import Batch
from ..training import losses
from .erm import ERM


class Amplified(ERM):
    """Minimise GCE; `released` takes the detached form that the released codes run."""

    def __init__(self, model: nn.Module, *, q: float = 0.7, released: bool = True):
        super().__init__(model)
        self.q = q
        self.loss = losses.gce_released if released else losses.gce

    def forward(self, batch: Batch, player: str) -> dict[str, Tensor]:
        return {"gce": self.loss(self.model(batch.x), batch.y, q=self.q).mean()}
