"""Compare the size and the speed of a network before and after debiasing, in a few seconds."""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor, nn

from ..masks.channels import slim
from .export import BLOCK
from .measure import latencies

MOST_PASSES = 101  # a small network could make hundreds in the time
WHOLE_CHANNELS = (
    "Masks on single weights remove hardly any whole channel. With --set prune.unit=channel whole channels "
    "are removed, and `unspur export --slim` writes a smaller and faster model. `unspur export --packed` "
    "leaves zeros out of the file."
)


@dataclass(frozen=True)
class SizeAndSpeed:
    """The bytes of the weights, and the milliseconds for one image on the CPU."""

    bytes: int
    milliseconds: float

    def __str__(self) -> str:
        return f"{_short(self.bytes / 1e6)} MB, {_short(self.milliseconds)} ms per image"


def _short(value: float) -> str:
    """Return a number with one decimal, or with two digits if it is below 1."""
    return f"{value:.1f}" if value >= 1 else f"{value:#.2g}"


@dataclass(frozen=True)
class BeforeAfter:
    """The costs of the ordinary network, and of the debiased one without its dead channels."""

    before: SizeAndSpeed
    after: SizeAndSpeed
    removed: int  # channels and heads

    def as_json(self) -> dict[str, Any]:
        """Return the numbers for run.json."""
        return asdict(self)

    def lines(self, *, on_channels: bool) -> list[str]:
        """Return sentences on what changed, and on what would help if only single weights were removed."""
        less = f" without {self.removed} dead channels" if self.removed else ""
        text = f"Ordinary model: {self.before}. Debiased model{less}: {self.after} (torch, CPU)."
        if self.removed:
            text += " `unspur export --slim` writes a model without them."
        return [text] if on_channels else [text, WHOLE_CHANNELS]


def compare(
    ordinary: nn.Module, debiased: nn.Module, x: Tensor, *, seconds: float = 0.3
) -> BeforeAfter:
    """Measure both networks in turn, without changing them; `x` is network input."""
    whole, slimmed = ordinary.eval(), copy.deepcopy(debiased).eval()
    removed = 0
    if _has_empty_rows(slimmed):  # otherwise skip the search for dead channels, which takes seconds
        removed = sum(gone for gone, _ in slim(slimmed, x, multiple=BLOCK).removed.values())
    models = {"before": whole, "after": slimmed}
    times = latencies(models, x, seconds=seconds, batches=(1,), most_passes=MOST_PASSES)
    found = {name: SizeAndSpeed(_bytes(model), times[name][1]) for name, model in models.items()}
    return BeforeAfter(**found, removed=removed)


def _has_empty_rows(model: nn.Module) -> bool:
    """Return whether some layer has an output whose weights are all zero."""
    weights = (p.detach() for p in model.parameters() if p.dim() > 1)
    return any(bool((w.flatten(1) == 0).all(1).any()) for w in weights)


def _bytes(model: nn.Module) -> int:
    return sum(t.numel() * t.element_size() for t in model.state_dict().values())
