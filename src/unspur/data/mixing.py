"""Two augmentations that take from other images of the batch: style exchange and mixing within a class.

Both work on network input, after crops and flips. Their random numbers are functions of (seed, step,
position in the batch), and their shapes do not depend on the data, so that a step can be captured.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .. import noise

SPREAD = 1e-3  # added to standard deviations, so that a flat channel can be divided by its own


@dataclass(frozen=True)
class Mixing:
    """The probability with which an image takes the style of another, and is mixed with one of its class."""

    style: float = 0.0
    mix: float = 0.0

    def __call__(
        self, x: Tensor, y: Tensor, conflict: Tensor, *, seed: int, step: Tensor
    ) -> Tensor:
        """Return the batch with styles exchanged first and images mixed then."""
        if self.style:
            x = exchange_style(x, self.style, seed=seed, step=step)
        return mix_within_class(x, y, conflict, self.mix, seed=seed, step=step) if self.mix else x


def exchange_style(x: Tensor, probability: float, *, seed: int, step: Tensor) -> Tensor:
    """Move the mean and spread of each channel towards those of another image of the batch.

    With m, s the mean and standard deviation of a channel, m', s' those of the other image, and a uniform
    in (0, 1): x becomes (x - m) / s · ((1 - a) s + a s') + (1 - a) m + a m'. The other image is given by a
    random permutation of the batch.
    """
    order, chance, amount = noise.uniform(seed, step, noise.STYLE, (3, len(x)), x.device)
    other = torch.sort(order, stable=True).indices
    a = torch.where(chance < probability, amount, 0.0)[:, None, None, None]
    variance, mean = torch.var_mean(x, dim=(2, 3), correction=0, keepdim=True)
    spread = variance.sqrt() + SPREAD
    scale = 1 + a * (spread[other] / spread - 1)
    return x * scale + (mean * (1 - scale) + a * (mean[other] - mean))


def mix_within_class(
    x: Tensor, y: Tensor, conflict: Tensor, probability: float, *, seed: int, step: Tensor
) -> Tensor:
    """Mix every image with another of its class in the batch, with a weight below one half.

    The other image is the one with the largest u · (1 + [it is a suspect]), u uniform in (0, 1) for every
    pair: suspects are preferred. An image without another of its class is left as it is. Labels stay.
    """
    n = len(x)
    u = noise.uniform(seed, step, noise.MIX, (n + 2, n), x.device)
    pairs, chance, amount = u[:n], u[n], u[n + 1]
    itself = torch.eye(n, dtype=torch.bool, device=x.device)
    eligible = (y[:, None] == y) & ~itself
    best = torch.where(eligible, pairs * (1 + conflict.float()), 0.0).max(dim=1)
    b = torch.where((best.values > 0) & (chance < probability), amount / 2, 0.0)
    return torch.lerp(x, x[best.indices], b[:, None, None, None])
