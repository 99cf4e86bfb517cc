"""Views: transforms that hide colours, the border, all but the border, coarse structure or fine detail.

A network that sees images through a view cannot use what the view hides. A view shows nothing more than the
image does: nothing is enlarged and no contrast is raised.
"""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

Transform = Callable[[Tensor], Tensor]  # images (N, C, H, W) to images of the same shape


def grey(x: Tensor) -> Tensor:
    """Replace every channel by the mean of all channels."""
    return x.mean(1, keepdim=True).expand_as(x)


def centre(x: Tensor) -> Tensor:
    """Blank the border, three sixteenths of each side."""
    top, left = (3 * side // 16 for side in x.shape[2:])
    inner = x[:, :, top : x.shape[2] - top, left : x.shape[3] - left]
    return F.pad(inner, (left, left, top, top))


def detail(x: Tensor) -> Tensor:
    """Subtract from each pixel the mean of its surroundings, an eighth of each side.

    This removes light and shade, fog, and the colours of large areas.
    """
    high, wide = x.shape[2:]
    cells = (max(1, min(8, high // 4)), max(1, min(8, wide // 4)))
    coarse = F.interpolate(F.adaptive_avg_pool2d(x, cells), size=(high, wide), mode="bilinear")
    return x - coarse


def coarse(x: Tensor) -> Tensor:
    """Average over areas of a quarter of each side, which removes texture and shapes."""
    high, wide = x.shape[2:]
    areas = F.adaptive_avg_pool2d(x, (min(4, high), min(4, wide)))
    return F.interpolate(areas, size=(high, wide), mode="bilinear")


def border(x: Tensor) -> Tensor:
    """Blank everything but the border, three sixteenths of each side."""
    return x - centre(x)


class ViewedNetwork(nn.Module):
    """A network that sees its input through a view."""

    def __init__(self, network: nn.Module, view: Transform):
        super().__init__()
        self.network, self.view = network, view

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network(self.view(x))
        return logits
