"""Compare the size and the speed of a network before and after debiasing, in a few seconds."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from torch import Tensor, nn

from ..masks.channels import slim
from .export import BLOCK
from .measure import latencies

WHOLE_CHANNELS = (
    "Masks on single weights leave nearly every channel alive. With --set prune.unit=channel whole channels "
    "go, and `unspur export --slim` makes a smaller and faster model of it; `unspur export --packed` leaves "
    "zeros out of the file."
)


@dataclass(frozen=True)
class SizeAndSpeed:
    """Bytes of the weights, and milliseconds for one image on the CPU."""

    bytes: int
    milliseconds: float

    def __str__(self) -> str:
        return f"{self.bytes / 1e6:.1f} MB, {self.milliseconds:.1f} ms an image"


@dataclass(frozen=True)
class BeforeAfter:
    """The ordinary network, and the debiased one without its dead channels."""

    before: SizeAndSpeed
    after: SizeAndSpeed
    removed: int  # channels and heads
    units: int  # of the whole network

    def lines(self, *, on_channels: bool) -> list[str]:
        """Say what changed, and what would help if it is next to nothing."""
        text = (
            f"Before: {self.before}. After, made slim: {self.after} (torch, CPU; {self.removed} of "
            f"{self.units} channels and heads removed). `unspur export --slim` writes it."
        )
        return [text] if on_channels or 10 * self.removed > self.units else [text, WHOLE_CHANNELS]


def compare(
    ordinary: nn.Module, debiased: nn.Module, x: Tensor, *, seconds: float = 0.3
) -> BeforeAfter:
    """Measure both networks side by side; `x` is network input. Neither is changed."""
    whole, slimmed = ordinary.eval(), copy.deepcopy(debiased).eval()
    done = slim(slimmed, x, multiple=BLOCK)
    models = {"before": whole, "after": slimmed}
    times = latencies(models, x, seconds=seconds, batches=(1,))
    found = {name: SizeAndSpeed(_bytes(model), times[name][1]) for name, model in models.items()}
    removed = sum(gone for gone, _ in done.removed.values())
    return BeforeAfter(**found, removed=removed, units=sum(n for _, n in done.removed.values()))


def _bytes(model: nn.Module) -> int:
    return sum(t.numel() * t.element_size() for t in model.state_dict().values())
