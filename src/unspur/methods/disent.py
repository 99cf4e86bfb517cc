"""DisEnt: separate intrinsic from biased features, then swap the biased ones (Lee et al., NeurIPS 2021)."""

from __future__ import annotations

from typing import Literal, cast

import torch
from torch import Tensor, nn

from .. import noise
from ..data.batches import Batch
from ..models import paired
from ..models.head import find_head
from ..models.networks.pair import Pair
from ..training import losses
from ..training.method import MethodInputs
from ..training.sections import Beta, MethodSettings, Power, Rate, Since, Steps, Weight
from .difficulty import Difficulty
from .entry import MethodEntry, OwnStage
from .erm import ERM


class DisEnt(ERM):
    """Train two encoders and two heads; each head sees both features, but only trains its own encoder.

    L = L_dis + λ_swap L_swap with L_dis = mean W·CE(C_i) + λ_dis·mean GCE(C_b). After `swap_start` steps,
    L_swap is the same loss with the biased features permuted within the batch; the biased head then gets
    the permuted labels.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        biased: nn.Module,
        head: str,
        targets: Tensor,
        biased_weight: float = 10.0,
        swap_weight: float = 1.0,
        swap_biased_weight: float = 10.0,
        swap_start: int = 10_000,
        q: float = 0.7,
        memory: float = 0.7,
        seed: int = 0,
    ):
        super().__init__(pair := Pair(model, biased, head=head))
        self.biased_head = nn.Linear(pair.head.in_features, pair.head.out_features)
        self.difficulty = Difficulty(targets, memory=memory)
        self.biased_weight = biased_weight
        self.swap_weight, self.swap_biased_weight = swap_weight, swap_biased_weight
        self.swap_start, self.q, self.seed = swap_start, q, seed

    @property
    def pair(self) -> Pair:
        return cast(Pair, self.model)

    def forward(self, batch: Batch, player: str) -> dict[str, Tensor]:
        intrinsic_features, biased_features = self.pair.encode(batch.x)
        order = self.shuffle_order(batch)
        each, biased = self.heads(intrinsic_features, biased_features)
        intrinsic = losses.cross_entropy(each, batch.y)
        weight = self.difficulty.weigh(
            batch.index, losses.cross_entropy(biased, batch.y), intrinsic
        )
        each, swapped = self.heads(intrinsic_features, biased_features[order])
        other = self.swap_biased_weight * losses.gce_released(swapped, batch.y[order], q=self.q)
        mixed = weight * losses.cross_entropy(each, batch.y)
        active = batch.step > self.swap_start
        return {
            "intrinsic": (weight * intrinsic).mean(),
            "biased": self.biased_weight * losses.gce_released(biased, batch.y, q=self.q).mean(),
            "swapped": torch.where(active, self.swap_weight * mixed.mean(), 0.0),
            "swapped_biased": torch.where(active, self.swap_weight * other.mean(), 0.0),
        }

    def heads(self, intrinsic_features: Tensor, biased_features: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits of the intrinsic and the biased head; the other encoder's feature is detached."""
        intrinsic: Tensor = self.pair.head(
            torch.cat((intrinsic_features, biased_features.detach()), dim=1)
        )
        biased: Tensor = self.biased_head(
            torch.cat((intrinsic_features.detach(), biased_features), dim=1)
        )
        return intrinsic, biased

    def shuffle_order(self, batch: Batch) -> Tensor:
        """Return a permutation of the batch, for this step."""
        keys = noise.bits(self.seed, batch.step, noise.PERMUTE, (len(batch.y),), batch.y.device)
        return torch.sort(keys, stable=True).indices


class DisEntSettings(MethodSettings):
    """Settings of DisEnt; the rate is halved at 20,000, 30,000 and 40,000 steps."""

    steps: Steps = 50_000
    rate: Rate = 1e-2
    schedule: Literal["constant", "step", "cosine"] = "step"
    decay_every: Since = 10_000
    decay_from: Since = 10_000
    decay_by: Power = 0.5
    biased_weight: Weight = 10.0
    swap_weight: Weight = 1.0
    swap_biased_weight: Weight = 10.0
    swap_start: Since = 10_000
    q: Power = 0.7
    memory: Beta = 0.7


def build(model: nn.Module, inputs: MethodInputs, settings: DisEntSettings) -> DisEnt:
    """Build the method around two encoders of the same network."""
    names = {"biased_weight", "swap_weight", "swap_biased_weight", "swap_start", "q", "memory"}
    return DisEnt(
        model,
        biased=inputs.another_network("biased"),
        targets=inputs.targets,
        head=find_head(model, inputs.example),
        seed=inputs.seed("swap"),
        **settings.model_dump(include=names),
    )


ENTRY = MethodEntry(
    "disent",
    "DisEnt",
    "Lee et al., NeurIPS 2021",
    "2 encoders, 2 heads",
    stages=("disent",),
    own_stage=OwnStage(DisEntSettings, build, DisEnt, cost=2.0, copies=2, final=paired),
)
SELECTED = MethodEntry(
    "disent-selected",
    "DisEnt, step selected",
    "after Lee et al.",
    "miner, 2 encoders, 2 heads",
    stages=("mine", "disent"),
)
