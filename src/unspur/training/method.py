"""What a training stage minimises, by which parameters, and what it may be built from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from torch import Tensor, nn

from ..data.batches import Batch
from .sections import NetworkSettings


@dataclass(frozen=True)
class Player:
    """A name and the parameters stepped under it; the first `body` of them may wait for the others."""

    name: str
    parameters: tuple[nn.Parameter, ...]
    body: int = 0


class Method(nn.Module):
    """What one stage of training minimises. Whatever training changes is a parameter or a buffer."""

    uses_bias_labels: ClassVar[bool] = False
    mixes_images: ClassVar[bool] = (
        False  # whether its loss combines images before a network sees them
    )

    def players(self) -> tuple[Player, ...]:
        """Return who is stepped, in turn, at every step: by default one player with all trainable weights."""
        return (Player("model", tuple(p for p in self.parameters() if p.requires_grad)),)

    def forward(self, batch: Batch, player: str) -> dict[str, Tensor]:
        """Return the named losses of a player; the loop sums them and steps that player."""
        raise NotImplementedError(f"{type(self).__name__} must say what it minimises")

    def predict(self, x: Tensor) -> Tensor:
        """Return logits for network input."""
        raise NotImplementedError(f"{type(self).__name__} must say how it predicts")


class MethodInputs(Protocol):
    """What a method may ask for when it is built, beside the network that it trains."""

    @property
    def targets(self) -> Tensor:
        """The labels of all training samples."""

    @property
    def example(self) -> Tensor:
        """Two images as network input."""

    @property
    def head(self) -> str:
        """The name of the layer that makes the logits."""

    @property
    def group_counts(self) -> Tensor:
        """How many training samples every (target, bias) group has; only where bias labels are known."""

    def seed(self, purpose: str) -> int:
        """Return a different seed for each purpose."""

    def another_network(self, purpose: str) -> nn.Module:
        """Return the same network with other random weights."""

    def extra_network(self, settings: NetworkSettings, purpose: str) -> nn.Module:
        """Return a network that the method's settings describe."""
