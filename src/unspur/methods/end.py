"""EnD: separate features with the same bias, align those of a class (Tartaglione et al., CVPR 2021)."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor, nn

from ..data.batches import Batch
from ..models.head import Tap
from ..training import losses
from ..training.method import MethodInputs
from ..training.sections import MethodSettings, Since, Steps, Weight
from .entry import MethodEntry, OwnStage
from .erm import ERM


class EnD(ERM):
    """Minimise cross entropy + α R⊥ (separates samples of one bias) + β R∥ (aligns a class across biases)."""

    uses_bias_labels: ClassVar[bool] = True

    def __init__(
        self,
        model: nn.Module,
        *,
        head: str,
        disentangle: float = 1.0,
        entangle: float = 1.0,
        pairs: losses.Pairs = "all",
    ):
        super().__init__(model)
        self.tap = Tap(model, head)
        self.disentangle, self.entangle = disentangle, entangle
        self.pairs: losses.Pairs = pairs

    def forward(self, batch: Batch, player: str) -> dict[str, Tensor]:
        assert batch.bias is not None, "declared by uses_bias_labels"
        logits, features = self.tap(batch.x)
        apart = losses.disentangle(features, batch.bias)
        together = losses.entangle(features, batch.y, batch.bias, pairs=self.pairs)
        return {
            "cross_entropy": losses.cross_entropy(logits, batch.y).mean(),
            "disentangle": self.disentangle * apart,
            "entangle": self.entangle * together,
        }


class EnDSettings(MethodSettings):
    """Settings of EnD."""

    steps: Steps = 17_200
    weight_decay: Weight = 1e-4
    schedule: Literal["constant", "step", "cosine"] = "step"
    decay_every: Since = 4_300
    disentangle: Weight = 1.0
    entangle: Weight = 1.0
    pairs: Literal["all", "released"] = "all"


def build(model: nn.Module, inputs: MethodInputs, settings: EnDSettings) -> EnD:
    """Build the method on the features that enter the head."""
    options = settings.model_dump(include={"disentangle", "entangle", "pairs"})
    return EnD(model, head=inputs.head, **options)


ENTRY = MethodEntry(
    "end",
    "EnD",
    "Tartaglione et al., CVPR 2021",
    "1",
    stages=("end",),
    supervision="bias labels",
    own_stage=OwnStage(EnDSettings, build, EnD, uses_head=True),
)
