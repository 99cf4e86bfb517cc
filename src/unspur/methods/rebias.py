"""ReBias: learn features independent of a network that only sees the bias (Bahng et al., ICML 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from ..data.batches import Batch
from ..models.head import Tap, find_head
from ..training import losses
from ..training.method import MethodInputs, Player
from ..training.sections import MethodSettings, NetworkSettings, Since, Steps, Weight
from .entry import MethodEntry, OwnStage
from .erm import ERM


class ReBias(ERM):
    """Alternate between a biased network and the main network.

    Both minimise cross entropy. The biased network also increases the dependence (HSIC) between the features
    of the two networks, and the main network decreases it.
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
        """Return the biased network, which is updated first, and the main network."""
        return (
            Player("biased", tuple(self.biased.parameters())),
            Player("model", tuple(self.model.parameters())),
        )

    def forward(self, batch: Batch, player: str) -> dict[str, Tensor]:
        tap, other = self.tap, self.biased_tap
        if player == "biased":
            tap, other = other, tap
        logits, features = tap(batch.x)
        with torch.no_grad():
            _, other_features = other(batch.x)
        dependence = losses.hsic(
            features, other_features, radius_x=self.radius, radius_y=self.radius
        )
        return {
            "cross_entropy": losses.cross_entropy(logits, batch.y).mean(),
            "dependence": self.weights[player] * dependence,
        }


class ReBiasSettings(MethodSettings):
    """Settings of ReBias; `network` is a network that can only see the bias."""

    steps: Steps = 17_200
    weight_decay: Weight = 1e-4
    schedule: Literal["constant", "step", "cosine"] = "step"
    decay_every: Since = 4_300
    weight: Weight = 1.0
    biased_weight: Weight = 1.0
    radius: float = Field(1.0, ge=1e-4, le=1e4)
    network: NetworkSettings = NetworkSettings(name="flatnet", options={"kernel": 1})


def build(model: nn.Module, inputs: MethodInputs, settings: ReBiasSettings) -> ReBias:
    """Build the method with the network that its settings describe."""
    biased = inputs.extra_network(settings.network, "biased")
    return ReBias(
        model,
        biased=biased,
        head=inputs.head,
        biased_head=settings.network.head or find_head(biased, inputs.example),
        **settings.model_dump(include={"weight", "biased_weight", "radius"}),
    )


def extra_networks(settings: ReBiasSettings) -> Mapping[str, NetworkSettings]:
    """Name the network that can only see the bias."""
    return {"biased": settings.network}


ENTRY = MethodEntry(
    "rebias",
    "ReBias",
    "Bahng et al., ICML 2020",
    "2, in turn",
    stages=("rebias",),
    supervision="what kind of bias",
    own_stage=OwnStage(
        ReBiasSettings, build, ReBias, cost=3.0, uses_head=True, extra_networks=extra_networks
    ),
)
