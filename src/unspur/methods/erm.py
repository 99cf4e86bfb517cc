"""ERM: ordinary training with the mean cross entropy on uniform batches."""

from __future__ import annotations

from torch import Tensor, nn

from ..data.batches import Batch
from ..training import losses
from ..training.method import Method, Player
from .entry import MethodEntry


class ERM(Method):
    """Minimise the mean cross entropy."""

    def __init__(self, model: nn.Module, *, head: str = ""):
        super().__init__()
        self.model = model
        self.head = head  # the layer that may be trained alone at first

    def players(self) -> tuple[Player, ...]:
        """Return one player with all trainable weights; the weights of the head come last if it is named."""
        (whole,) = super().players()
        if not self.head:
            return (whole,)
        head_ids = set(map(id, self.model.get_submodule(self.head).parameters()))
        body = tuple(p for p in whole.parameters if id(p) not in head_ids)
        head = tuple(p for p in whole.parameters if id(p) in head_ids)
        return (Player(whole.name, (*body, *head), body=len(body)),)

    def forward(self, batch: Batch, player: str) -> dict[str, Tensor]:
        return {"cross_entropy": losses.cross_entropy(self.model(batch.x), batch.y).mean()}

    def predict(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(x)
        return logits


ENTRY = MethodEntry("erm", "ERM", "Vapnik 1991", "1", stages=("pretrain",))
