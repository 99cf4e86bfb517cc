"""EnD: disentangle features of one bias, entangle those of one class (Tartaglione et al., CVPR 2021)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from ..data.batches import Batch
from ..models.head import Tap
from ..training import losses
from .erm import ERM


class EnD(ERM):
    """Minimise cross entropy + α R⊥ (samples of one bias apart) + β R∥ (a class together across biases)."""

    uses_bias_labels: ClassVar[bool] = True

    def __init__(
        self,
        model: nn.Module,
        *,
        head: str,
        disentangle: float = 1.0,
        entangle: float = 1.0,
        pairs: losses.Pairs = "all",
    ):
        super().__init__(model)
        self.tap = Tap(model, head)
        self.disentangle, self.entangle = disentangle, entangle
        self.pairs: losses.Pairs = pairs

    def forward(self, batch: Batch, player: str) -> dict[str, Tensor]:
        assert batch.bias is not None, "declared by uses_bias_labels"
        logits, features = self.tap(batch.x)
        apart = losses.disentangle(features, batch.bias)
        together = losses.entangle(features, batch.y, batch.bias, pairs=self.pairs)
        return {
            "cross_entropy": losses.cross_entropy(logits, batch.y).mean(),
            "disentangle": self.disentangle * apart,
            "entangle": self.entangle * together,
        }
