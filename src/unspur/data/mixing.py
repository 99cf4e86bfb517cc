"""Mixing: augmentations that combine an image with another one of the batch (spectrum, style, parts).

They work on network input, after crops and flips. Their random numbers are functions of (seed, step, position
in the batch). Their shapes do not depend on the data, so that a step can be captured as a CUDA graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .. import noise

SPREAD = 1e-3  # added to standard deviations, to avoid division by 0


@dataclass(frozen=True)
class Mixing:
    """The probabilities of each kind of mixing.

    `spectrum` mixes the amplitudes of coarse and fine patterns; `style` mixes brightness, contrast and tint;
    `mix` mixes in another image of the same class.
    """

    spectrum: float = 0.0
    style: float = 0.0
    mix: float = 0.0

    def __call__(
        self, x: Tensor, y: Tensor, conflict: Tensor, *, seed: int, step: Tensor
    ) -> Tensor:
        """Return the batch with mixed spectra, then styles, then images."""
        if self.spectrum:
            x = exchange_spectrum(x, self.spectrum, seed=seed, step=step)
        if self.style:
            x = exchange_style(x, self.style, seed=seed, step=step)
        return mix_within_class(x, y, conflict, self.mix, seed=seed, step=step) if self.mix else x


def exchange_spectrum(x: Tensor, probability: float, *, seed: int, step: Tensor) -> Tensor:
    """Move the amplitude of every frequency towards that of another image of the batch; phases stay.

    With A, A' the amplitudes of the two images in a channel and a uniform in (0, 1): A becomes
    (1 - a) A + a A'. Shapes lie in the phases; noise, blur and other textures in the amplitudes.
    """
    other, a = _partners(len(x), probability, noise.SPECTRUM, seed=seed, step=step, device=x.device)
    frequencies = torch.fft.rfft2(x)
    amplitude = frequencies.abs()
    scale = 1 + a * (amplitude[other] / (amplitude + SPREAD) - 1)
    moved: Tensor = torch.fft.irfft2(frequencies * scale, s=x.shape[2:])
    return moved


def _partners(
    n: int, probability: float, stream: int, *, seed: int, step: Tensor, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return another image for each by a random permutation, and its weight (0 for no mixing)."""
    if noise.is_fused(step):
        from .mixing_kernels import partners

        return partners(n, probability, step, *noise.stream_keys(seed, stream))
    order, chance, amount = noise.uniform(seed, step, stream, (3, n), device)
    a = torch.where(chance < probability, amount, 0.0)
    return torch.sort(order, stable=True).indices, a[:, None, None, None]


def exchange_style(x: Tensor, probability: float, *, seed: int, step: Tensor) -> Tensor:
    """Move the mean and spread of each channel towards those of another image of the batch.

    With m, s the mean and standard deviation of a channel, m', s' those of the other image, and a uniform
    in (0, 1): x becomes (x - m) / s · ((1 - a) s + a s') + (1 - a) m + a m'. The other image is given by a
    random permutation of the batch.
    """
    other, a = _partners(len(x), probability, noise.STYLE, seed=seed, step=step, device=x.device)
    variance, mean = torch.var_mean(x, dim=(2, 3), correction=0, keepdim=True)
    spread = variance.sqrt() + SPREAD
    scale = 1 + a * (spread[other] / spread - 1)
    return x * scale + (mean * (1 - scale) + a * (mean[other] - mean))


def mix_within_class(
    x: Tensor, y: Tensor, conflict: Tensor, probability: float, *, seed: int, step: Tensor
) -> Tensor:
    """Mix every image with another of its class in the batch, with a weight below one half.

    The other image is the one with the largest u · (1 + [it is a suspect]), u uniform in (0, 1) for every
    pair, so suspects are preferred. An image without another one of its class is not changed. Labels are
    kept.
    """
    index, b = _of_same_class(y, conflict, probability, seed=seed, step=step)
    return torch.lerp(x, x[index], b[:, None, None, None])


def _of_same_class(
    y: Tensor, conflict: Tensor, probability: float, *, seed: int, step: Tensor
) -> tuple[Tensor, Tensor]:
    """Return another image of its class for each, and its weight (0 for no mixing)."""
    n = len(y)
    if noise.is_fused(step):
        from .mixing_kernels import of_same_class

        return of_same_class(y, conflict, probability, step, *noise.stream_keys(seed, noise.MIX))
    u = noise.uniform(seed, step, noise.MIX, (n + 2, n), y.device)
    pairs, chance, amount = u[:n], u[n], u[n + 1]
    itself = torch.eye(n, dtype=torch.bool, device=y.device)
    eligible = (y[:, None] == y) & ~itself
    best = torch.where(eligible, pairs * (1 + conflict.float()), 0.0).max(dim=1)
    b = torch.where((best.values > 0) & (chance < probability), amount / 2, 0.0)
    return best.indices, b
