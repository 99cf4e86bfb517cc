"""ERM: the ordinary way to train, mean cross entropy on uniform batches."""

from __future__ import annotations

from torch import Tensor, nn

from ..data.batches import Batch
from ..training import losses
from ..training.method import Method
from .entry import MethodEntry


class ERM(Method):
    """Minimise the mean cross entropy."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, batch: Batch, player: str) -> dict[str, Tensor]:
        return {"cross_entropy": losses.cross_entropy(self.model(batch.x), batch.y).mean()}

    def predict(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(x)
        return logits


ENTRY = MethodEntry("erm", "ERM", "Vapnik 1991", "1", stages=("pretrain",))
