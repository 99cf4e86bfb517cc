"""ReBias: be independent of a network that can only see the bias (Bahng et al., ICML 2020)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..data.batches import Batch
from ..models.head import Tap
from ..training import losses
from ..training.method import Player
from .erm import ERM


class ReBias(ERM):
    """In turn: the biased network learns and follows the other's features; the other learns and avoids its.

    Dependence is measured by HSIC of the two networks' features.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        biased: nn.Module,
        head: str,
        biased_head: str,
        weight: float = 1.0,
        biased_weight: float = 1.0,
        radius: float = 1.0,
    ):
        super().__init__(model)
        self.biased = biased
        self.tap, self.biased_tap = Tap(model, head), Tap(biased, biased_head)
        self.weights = {"biased": -biased_weight, "model": weight}
        self.radius = radius

    def players(self) -> tuple[Player, ...]:
        """The biased network moves first; the other answers it as it is then."""
        return (
            Player("biased", tuple(self.biased.parameters())),
            Player("model", tuple(self.model.parameters())),
        )

    def forward(self, batch: Batch, player: str) -> dict[str, Tensor]:
        own, other = self.tap, self.biased_tap
        if player == "biased":
            own, other = other, own
        logits, features = own(batch.x)
        with torch.no_grad():
            _, theirs = other(batch.x)
        dependence = losses.hsic(features, theirs, radius_x=self.radius, radius_y=self.radius)
        return {
            "cross_entropy": losses.cross_entropy(logits, batch.y).mean(),
            "dependence": self.weights[player] * dependence,
        }
