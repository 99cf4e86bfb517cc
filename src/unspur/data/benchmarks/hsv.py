"""Conversion between RGB and HSV (hue, saturation, value)."""

from __future__ import annotations

import torch
from torch import Tensor


def to_hsv(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return hue in [0, 1), saturation and value, each (N, 32, 32). Grey has the hue of red.

    Operations have the order of the original code, because truncation to bytes makes differences visible.
    """
    red, green, blue = x.unbind(1)
    value = x.amax(1)
    spread = value - x.amin(1)
    hue = torch.where(green == value, 2.0 + (blue - red) / spread, (green - blue) / spread)
    hue = torch.where(blue == value, 4.0 + (red - green) / spread, hue)
    grey = spread == 0
    return torch.where(grey, 0.0, hue / 6.0 % 1.0), torch.where(grey, 0.0, spread / value), value


def from_hsv(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    """Return RGB. In each sixth of the hues, one channel is the highest, one the lowest, one in between."""
    sixth = (hue * 6.0).floor()
    rest = hue * 6.0 - sixth
    low = value * (1.0 - saturation)
    falling = value * (1.0 - rest * saturation)
    rising = value * (1.0 - (1.0 - rest) * saturation)
    order = torch.tensor([[0, 3, 1], [2, 0, 1], [1, 0, 3], [1, 2, 0], [3, 1, 0], [0, 1, 2]])
    channels = order[sixth.long()].movedim(-1, 1)
    return torch.stack([value, low, falling, rising], 1).gather(1, channels)
