"""Colours as hue, saturation and value."""

from __future__ import annotations

import torch
from torch import Tensor


def to_hsv(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return hue in [0, 1), saturation and value, each (N, 32, 32). Grey has the hue of red.

    The order of operations is that of the original, here and below, because truncation makes it matter.
    """
    red, green, blue = x.unbind(1)
    value = x.amax(1)
    spread = value - x.amin(1)
    hue = torch.where(green == value, 2.0 + (blue - red) / spread, (green - blue) / spread)
    hue = torch.where(blue == value, 4.0 + (red - green) / spread, hue)
    grey = spread == 0
    return torch.where(grey, 0.0, hue / 6.0 % 1.0), torch.where(grey, 0.0, spread / value), value


def from_hsv(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    """Return red, green and blue for hue, saturation and value."""
    sixth = (hue * 6.0).floor()
    rest = hue * 6.0 - sixth
    low = value * (1.0 - saturation)
    falling = value * (1.0 - rest * saturation)
    rising = value * (1.0 - (1.0 - rest) * saturation)
    order = torch.tensor([[0, 3, 1], [2, 0, 1], [1, 0, 3], [1, 2, 0], [3, 1, 0], [0, 1, 2]])
    channels = order[sixth.long()].movedim(-1, 1)
    return torch.stack([value, low, falling, rising], 1).gather(1, channels)
