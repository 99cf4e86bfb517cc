"""The interface of methods: what a training minimises, over which parameters, and the inputs of a method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from torch import Tensor, nn

from ..data.batches import Batch
from .sections import NetworkSettings


@dataclass(frozen=True)
class Player:
    """A named set of parameters with its own optimiser; the first `body` may be frozen at the beginning."""

    name: str
    parameters: tuple[nn.Parameter, ...]
    body: int = 0


class Method(nn.Module):
    """The base class of methods. All state that training changes must be a parameter or a buffer."""

    uses_bias_labels: ClassVar[bool] = False
    mixes_images: ClassVar[bool] = False  # whether the method combines images before the network

    def players(self) -> tuple[Player, ...]:
        """Return the players that each step updates in turn; by default one with all trainable weights."""
        return (Player("model", tuple(p for p in self.parameters() if p.requires_grad)),)

    def forward(self, batch: Batch, player: str) -> dict[str, Tensor]:
        """Return the named losses of a player; the loop minimises their sum over its parameters."""
        raise NotImplementedError(f"{type(self).__name__} must define forward(): what it minimises")

    def predict(self, x: Tensor) -> Tensor:
        """Return logits for network input."""
        raise NotImplementedError(f"{type(self).__name__} must define predict(): how it predicts")


class MethodInputs(Protocol):
    """The inputs from which a method is built, besides the network that it trains."""

    @property
    def targets(self) -> Tensor:
        """The labels of all training samples."""

    @property
    def example(self) -> Tensor:
        """Two images as network input."""

    @property
    def head(self) -> str:
        """The name of the layer that computes the logits."""

    @property
    def group_counts(self) -> Tensor:
        """The number of training samples of every (target, bias) group; needs bias labels."""

    def seed(self, purpose: str) -> int:
        """Return a different seed for each purpose."""

    def another_network(self, purpose: str) -> nn.Module:
        """Return another network of the same architecture.

        Its random weights differ. Weights that the user gives, in a model or a file, are the same.
        """

    def extra_network(self, settings: NetworkSettings, purpose: str) -> nn.Module:
        """Return a network that the method's settings describe."""
