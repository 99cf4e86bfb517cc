"""LfF: learning from the failure of a network that was made biased (Nam et al., NeurIPS 2020)."""

from __future__ import annotations

from torch import Tensor, nn

from ..data.batches import Batch
from ..training import losses
from .difficulty import Difficulty
from .erm import ERM


class LfF(ERM):
    """Minimise GCE of the biased network, and cross entropy of the other where the biased one fails."""

    def __init__(
        self,
        model: nn.Module,
        *,
        biased: nn.Module,
        targets: Tensor,
        q: float = 0.7,
        memory: float = 0.7,
    ):
        super().__init__(model)
        self.biased = biased
        self.difficulty = Difficulty(targets, memory=memory)
        self.q = q

    def forward(self, batch: Batch, player: str) -> dict[str, Tensor]:
        easy, logits = self.biased(batch.x), self.model(batch.x)
        each = losses.cross_entropy(logits, batch.y)
        weight = self.difficulty.weigh(batch.index, losses.cross_entropy(easy, batch.y), each)
        return {
            "biased": losses.gce_released(easy, batch.y, q=self.q).mean(),
            "debiased": (weight * each).mean(),
        }
