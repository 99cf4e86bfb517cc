"""An example plugin with a method, a data set and a network."""

from __future__ import annotations

from pydantic import Field
from torch import Tensor, nn

from unspur.data.batches import Batch
from unspur.data.benchmarks.registry import Request
from unspur.data.splits import Splits
from unspur.methods import ERM, MethodEntry, OwnStage
from unspur.testing.tiny import TinyNet, shapes_set
from unspur.training.method import MethodInputs
from unspur.training.sections import MethodSettings


class SmoothERM(ERM):
    """Minimise the cross entropy with smoothed labels."""

    def __init__(self, model: nn.Module, smoothing: float):
        super().__init__(model)
        self.smoothing = smoothing

    def forward(self, batch: Batch, player: str) -> dict[str, Tensor]:
        logits = self.model(batch.x)
        loss = nn.functional.cross_entropy(logits, batch.y, label_smoothing=self.smoothing)
        return {"smooth_cross_entropy": loss}


class SmoothSettings(MethodSettings):
    """Settings of the method."""

    steps: int = Field(30, gt=0)
    batch: int = Field(32, gt=0)
    smoothing: float = Field(0.1, ge=0, lt=1)


def build(model: nn.Module, inputs: MethodInputs, settings: SmoothSettings) -> SmoothERM:
    """Build the method around a network."""
    return SmoothERM(model, settings.smoothing)


METHOD = MethodEntry(
    "tiny-erm",
    "Tiny ERM",
    "the tests",
    "1",
    stages=("tiny-erm",),
    own_stage=OwnStage(SmoothSettings, build, SmoothERM),
)


def bars(request: Request) -> Splits:
    """Return vertical and horizontal bars, drawn with the seed of the recipe."""
    return shapes_set(seed=request.seed)


def network(classes: int) -> nn.Module:
    """Return a network for a number of classes."""
    return TinyNet(classes)
