"""Augmentations that mix an image with another of the batch: its spectrum, its style, or the whole image.

All work on network input, after crops and flips. Their random numbers are functions of (seed, step,
position in the batch), and tensor shapes do not depend on the data, so that a step can be captured as a
CUDA graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .. import noise

MARGIN = 2.0**-38  # bound on the relative error of sums in float64
SPREAD = 1e-3  # added to standard deviations and amplitudes, to avoid division by zero


@dataclass(frozen=True)
class Mixing:
    """The probabilities with which an image is mixed with another one.

    `spectrum` mixes the strength of coarse and fine patterns, `style` mixes brightness, contrast and tint,
    `mix` blends the image with another one of its class.
    """

    spectrum: float = 0.0
    style: float = 0.0
    mix: float = 0.0

    def __call__(
        self, x: Tensor, y: Tensor, conflict: Tensor, *, seed: int, step: Tensor
    ) -> Tensor:
        """Return the batch with mixed spectra, then mixed styles, then blended images."""
        if self.spectrum:
            x = mix_spectrum(x, self.spectrum, seed=seed, step=step)
        if self.style:
            x = mix_style(x, self.style, seed=seed, step=step)
        return mix_within_class(x, y, conflict, self.mix, seed=seed, step=step) if self.mix else x


def mix_spectrum(x: Tensor, probability: float, *, seed: int, step: Tensor) -> Tensor:
    """Move the amplitude of every frequency towards that of another image of the batch; phases stay.

    With A, A' the amplitudes of the two images in a channel and a uniform in (0, 1): A becomes
    (1 - a) A + a A'. Shapes lie in the phases; noise, blur and other textures in the amplitudes.
    """
    other, a = _partners(len(x), probability, noise.SPECTRUM, seed=seed, step=step, device=x.device)
    frequencies = torch.fft.rfft2(x)
    amplitude = frequencies.abs()
    scale = amplitude[other].div_(amplitude.add_(SPREAD)).sub_(1).mul_(a).add_(1)
    moved: Tensor = torch.fft.irfft2(frequencies.mul_(scale), s=x.shape[2:])
    return moved


def _partners(
    n: int, probability: float, stream: int, *, seed: int, step: Tensor, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return a partner for each image, from a random permutation, and the weight of the partner (0 to 1)."""
    if noise.is_fused(step):
        from .mixing_kernels import partners

        return partners(n, probability, step, *noise.stream_keys(seed, stream))
    order, chance, amount = noise.uniform(seed, step, stream, (3, n), device)
    a = torch.where(chance < probability, amount, 0.0)
    return torch.sort(order, stable=True).indices, a[:, None, None, None]


def mix_style(x: Tensor, probability: float, *, seed: int, step: Tensor) -> Tensor:
    """Move the mean and spread of each channel towards those of another image of the batch.

    With m, s the mean and standard deviation of a channel, m', s' those of the other image, and a uniform
    in (0, 1): x becomes (x - m) / s · ((1 - a) s + a s') + (1 - a) m + a m'. The other image comes from a
    random permutation of the batch.
    """
    other, a = _partners(len(x), probability, noise.STYLE, seed=seed, step=step, device=x.device)
    variance, mean = _variance_and_mean(x)
    spread = variance.sqrt() + SPREAD
    scale = 1 + a * (spread[other] / spread - 1)
    shift = mean * (1 - scale) + a * (mean[other] - mean)
    return x * _repeat_along_rows(scale, x) + _repeat_along_rows(shift, x)


def _variance_and_mean(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the variance and the mean of every channel of every image, with the bits of `torch.var_mean`.

    On a CPU, `torch.var_mean` adds up in float64, one number after another. Adding up in any order is several
    times faster, and gives the same float32 unless the sum is very close to the middle between two of them.
    Images for which this may be so are computed again.
    """
    if not x.is_cpu or torch.compiler.is_compiling():
        return _exact_variance_and_mean(x)
    wide = x.to(torch.float64, memory_format=torch.contiguous_format)
    mean = wide.mean((2, 3), keepdim=True)
    found = torch.stack([wide.sub_(mean).square_().mean((2, 3), keepdim=True), mean])
    variance, mean = found.to(x.dtype)
    uncertain = (found * (1 - MARGIN)).to(x.dtype) != (found * (1 + MARGIN)).to(x.dtype)
    if uncertain.numpy().any():  # on the CPU there is no device to wait for
        rows = torch.from_numpy(np.nonzero(uncertain.numpy().any((0, 2, 3, 4)))[0])
        variance[rows], mean[rows] = _exact_variance_and_mean(x[rows])
    return variance, mean


def _exact_variance_and_mean(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.var_mean(x, dim=(2, 3), correction=0, keepdim=True)


def _repeat_along_rows(values: Tensor, x: Tensor) -> Tensor:
    """Return numbers per channel, repeated for a row of pixels if `x` is in channels-last format on a CPU.

    Then the inner loop of an operation with `x` has the length of a row instead of the number of channels.
    """
    if not x.is_cpu or x.is_contiguous():
        return values
    row = values.expand(*values.shape[:3], x.shape[3])
    return row.contiguous(memory_format=torch.channels_last)


def mix_within_class(
    x: Tensor, y: Tensor, conflict: Tensor, probability: float, *, seed: int, step: Tensor
) -> Tensor:
    """Blend every image with another of its class in the batch, with a weight below one half.

    The other image is the one with the largest u · (1 + [it is a suspect]), where u is uniform in (0, 1) for
    every pair, so suspects are preferred. An image that is alone in its class is not changed. Labels stay.
    """
    index, b = _class_partners(y, conflict, probability, seed=seed, step=step)
    return torch.lerp(x, x[index], b[:, None, None, None])


def _class_partners(
    y: Tensor, conflict: Tensor, probability: float, *, seed: int, step: Tensor
) -> tuple[Tensor, Tensor]:
    """Return a partner of the same class for each image, and the weight of the partner (0 to 1/2)."""
    n = len(y)
    if noise.is_fused(step):
        from .mixing_kernels import class_partners

        return class_partners(y, conflict, probability, step, *noise.stream_keys(seed, noise.MIX))
    u = noise.uniform(seed, step, noise.MIX, (n + 2, n), y.device)
    pairs, chance, amount = u[:n], u[n], u[n + 1]
    itself = torch.eye(n, dtype=torch.bool, device=y.device)
    eligible = (y[:, None] == y) & ~itself
    best = torch.where(eligible, pairs * (1 + conflict.float()), 0.0).max(dim=1)
    b = torch.where((best.values > 0) & (chance < probability), amount / 2, 0.0)
    return best.indices, b
