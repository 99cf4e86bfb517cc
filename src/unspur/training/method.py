"""What a training stage minimises, and by which parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from ..data.batches import Batch


@dataclass(frozen=True)
class Player:
    """A name and the parameters stepped under it."""

    name: str
    parameters: tuple[nn.Parameter, ...]


class Method(nn.Module):
    """What one stage of training minimises. Whatever training changes is a parameter or a buffer."""

    uses_bias_labels: ClassVar[bool] = False

    def players(self) -> tuple[Player, ...]:
        """Who is stepped, in turn, at every step; one player with all trainable weights by default."""
        return (Player("model", tuple(p for p in self.parameters() if p.requires_grad)),)

    def forward(self, batch: Batch, player: str) -> dict[str, Tensor]:
        """The named losses of a player; the loop sums them and steps that player."""
        raise NotImplementedError(f"{type(self).__name__} must say what it minimises")

    def predict(self, x: Tensor) -> Tensor:
        """Logits for network input."""
        raise NotImplementedError(f"{type(self).__name__} must say how it predicts")
