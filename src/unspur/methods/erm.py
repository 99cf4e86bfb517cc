"""ERM: the ordinary way to train, mean cross entropy on uniform batches."""

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
        self.head = head  # the layer that may be trained first, alone

    def players(self) -> tuple[Player, ...]:
        """Return one player with all trainable weights; those of a named head come last."""
        (whole,) = super().players()
        if not self.head:
            return (whole,)
        of_head = set(map(id, self.model.get_submodule(self.head).parameters()))
        body = tuple(p for p in whole.parameters if id(p) not in of_head)
        head = tuple(p for p in whole.parameters if id(p) in of_head)
        return (Player(whole.name, (*body, *head), body=len(body)),)

    def forward(self, batch: Batch, player: str) -> dict[str, Tensor]:
        return {"cross_entropy": losses.cross_entropy(self.model(batch.x), batch.y).mean()}

    def predict(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(x)
        return logits


ENTRY = MethodEntry("erm", "ERM", "Vapnik 1991", "1", stages=("pretrain",))
