"""Networks that cannot see something: no colours, no border. What they notice is due to the rest."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn


def grey(x: Tensor) -> Tensor:
    """All channels alike."""
    return x.mean(1, keepdim=True).expand_as(x)


def centre(x: Tensor) -> Tensor:
    """The border blank, three sixteenths of each side. Nothing is enlarged: that would show more."""
    top, left = (3 * side // 16 for side in x.shape[2:])
    inner = x[:, :, top : x.shape[2] - top, left : x.shape[3] - left]
    return F.pad(inner, (left, left, top, top))


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {"grey": grey, "centre": centre}


class Viewed(nn.Module):
    """A network behind a view of its input."""

    def __init__(self, network: nn.Module, view: str):
        super().__init__()
        self.network, self.view = network, VIEWS[view]

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network(self.view(x))
        return logits
