"""Networks that cannot see colours, the border, or what is coarse. What they notice is due to the rest."""

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


def detail(x: Tensor) -> Tensor:
    """What differs from its surroundings, an eighth of each side.

    Light and shade, fog and the colours of large areas are gone. Contrast stays as it is: more of it would
    show more.
    """
    high, wide = x.shape[2:]
    cells = (max(1, min(8, high // 4)), max(1, min(8, wide // 4)))
    coarse = F.interpolate(F.adaptive_avg_pool2d(x, cells), size=(high, wide), mode="bilinear")
    return x - coarse


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {"grey": grey, "centre": centre, "detail": detail}

HIDDEN = {
    "grey": "the colours",
    "centre": "the border",
    "detail": "light, shade and the colour of large areas",
}


class Viewed(nn.Module):
    """A network behind a view of its input."""

    def __init__(self, network: nn.Module, view: str):
        super().__init__()
        self.network, self.view = network, VIEWS[view]

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network(self.view(x))
        return logits
