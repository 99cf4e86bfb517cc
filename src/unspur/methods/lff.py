"""LfF: learn from the failures of a deliberately biased network (Nam et al., NeurIPS 2020)."""

from __future__ import annotations

from torch import Tensor, nn

from ..data.batches import Batch
from ..training import losses
from ..training.method import MethodInputs
from ..training.sections import Beta, MethodSettings, Power, Steps
from .difficulty import Difficulty
from .entry import MethodEntry, OwnStage
from .erm import ERM


class LfF(ERM):
    """Minimise GCE of a biased network; the main network's cross entropy has high weight where that fails."""

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


class LfFSettings(MethodSettings):
    """Settings of LfF; the defaults are 100 epochs of CMNIST."""

    steps: Steps = 23_500
    q: Power = 0.7
    memory: Beta = 0.7


def build(model: nn.Module, inputs: MethodInputs, settings: LfFSettings) -> LfF:
    """Build the method with a second, biased network."""
    biased = inputs.another_network("biased")
    return LfF(model, biased=biased, targets=inputs.targets, q=settings.q, memory=settings.memory)


ENTRY = MethodEntry(
    "lff",
    "LfF",
    "Nam et al., NeurIPS 2020",
    "2, jointly",
    stages=("lff",),
    own_stage=OwnStage(LfFSettings, build, LfF, cost=2.0),
)
SELECTED = MethodEntry(
    "lff-selected",
    "LfF, step selected",
    "after Nam et al.",
    "3: miner, 2 jointly",
    stages=("mine", "lff"),
)
