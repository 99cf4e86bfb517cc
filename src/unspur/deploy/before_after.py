"""Compare the size and the speed of a network before and after debiasing, in a few seconds."""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass
from typing import Any

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
        return f"{self.bytes / 1e6:.1f} MB, {self.milliseconds:.1f} ms per image"


@dataclass(frozen=True)
class BeforeAfter:
    """The ordinary network, and the debiased one without its dead channels."""

    before: SizeAndSpeed
    after: SizeAndSpeed
    removed: int  # channels and heads

    def as_json(self) -> dict[str, Any]:
        """Return the numbers as run.json has them."""
        return asdict(self)

    def lines(self, *, on_channels: bool) -> list[str]:
        """Say what changed, and what would help where only single weights are gone."""
        less = f" without {self.removed} dead channels" if self.removed else ""
        text = f"Ordinary model: {self.before}. Debiased model{less}: {self.after} (torch, CPU)."
        if self.removed:
            text += " `unspur export --slim` writes a model without them."
        return [text] if on_channels else [text, WHOLE_CHANNELS]


def compare(
    ordinary: nn.Module, debiased: nn.Module, x: Tensor, *, seconds: float = 0.3
) -> BeforeAfter:
    """Measure both networks side by side; `x` is network input. Neither is changed."""
    whole, slimmed = ordinary.eval(), copy.deepcopy(debiased).eval()
    removed = 0
    if _has_empty_rows(slimmed):  # to look for dead channels takes seconds
        removed = sum(gone for gone, _ in slim(slimmed, x, multiple=BLOCK).removed.values())
    models = {"before": whole, "after": slimmed}
    times = latencies(models, x, seconds=seconds, batches=(1,))
    found = {name: SizeAndSpeed(_bytes(model), times[name][1]) for name, model in models.items()}
    return BeforeAfter(**found, removed=removed)


def _has_empty_rows(model: nn.Module) -> bool:
    """Return whether some weight has an output without any input."""
    weights = (p.detach() for p in model.parameters() if p.dim() > 1)
    return any(bool((w.flatten(1) == 0).all(1).any()) for w in weights)


def _bytes(model: nn.Module) -> int:
    return sum(t.numel() * t.element_size() for t in model.state_dict().values())
