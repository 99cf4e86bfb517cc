"""Where batches come from: images on the device, turned into network input and augmented there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import noise
from .splits import Split

Augment = Literal["none", "flip", "crop-flip"]


@dataclass(frozen=True)
class Batch:
    """What a method sees of one step. `bias` is filled only for methods that declare its use."""

    x: Tensor
    y: Tensor
    index: Tensor
    conflict: Tensor
    step: Tensor
    bias: Tensor | None = None


@dataclass(frozen=True)
class Preprocess:
    """From stored pixels to network input: scale uint8 to [0, 1], then normalise by channel."""

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def __call__(self, images: Tensor) -> Tensor:
        x = images.float() / 255 if images.dtype == torch.uint8 else images.float()
        if not self.mean:
            return x
        return (x - _column(self.mean, x.device)) / _column(self.std, x.device)


@cache  # a captured step must not copy from the host
def _column(values: tuple[float, ...], device: torch.device) -> Tensor:
    return torch.tensor(values, device=device).view(-1, 1, 1)


class Source(Protocol):
    """Gives the batches of given samples.

    `feed` runs ahead of training and yields what a step takes from outside: the samples' indices, and
    their pixels where these are not on the device already. `batch` makes a batch of them within the step.
    """

    targets: Tensor

    def feed(self, order: Iterator[Tensor]) -> Iterator[tuple[Tensor, ...]]: ...
    def batch(self, index: Tensor, step: Tensor, pixels: Tensor | None = None) -> Batch: ...


class Resident:
    """All images on the device; a batch is a gather. Augmentation is a function of (seed, step)."""

    def __init__(
        self,
        split: Split,
        *,
        device: torch.device,
        preprocess: Preprocess,
        augment: Augment = "none",
        seed: int = 0,
        conflict: Tensor | None = None,
        bias: Tensor | None = None,
    ):
        self.images, self.targets = split.on(device)
        self.preprocess, self.augment, self.seed = preprocess, augment, seed
        none = torch.zeros(len(split), dtype=torch.bool)
        self.conflict = (none if conflict is None else conflict).to(device)
        self.bias = None if bias is None else bias.to(device)

    def feed(self, order: Iterator[Tensor]) -> Iterator[tuple[Tensor, ...]]:
        return ((index,) for index in order)

    def batch(self, index: Tensor, step: Tensor, pixels: Tensor | None = None) -> Batch:
        """The samples `index`, augmented for this step."""
        pixels = self.images[index] if pixels is None else pixels
        images = augmented(pixels, self.augment, seed=self.seed, step=step)
        return Batch(
            x=self.preprocess(images),
            y=self.targets[index],
            index=index,
            conflict=self.conflict[index],
            step=step,
            bias=None if self.bias is None else self.bias[index],
        )

    def plain(self, size: int = 1000) -> Iterator[Tensor]:
        """Network input of all samples in order, without augmentation."""
        for start in range(0, len(self.images), size):
            yield self.preprocess(self.images[start : start + size])


def augmented(images: Tensor, how: Augment, *, seed: int, step: Tensor) -> Tensor:
    """Random flips, and crops out of a four-pixel black border, keyed by the position in the batch."""
    if how == "none":
        return images
    n = len(images)
    flip = noise.uniform(seed, step, noise.FLIP, (n,), images.device) < 0.5
    images = torch.where(flip[:, None, None, None], images.flip(3), images)
    return _cropped(images, seed=seed, step=step) if how == "crop-flip" else images


def _cropped(images: Tensor, *, seed: int, step: Tensor, border: int = 4) -> Tensor:
    n, c, h, w = images.shape
    device = images.device
    rows, columns = (
        (noise.uniform(seed, step, stream, (n,), device) * (2 * border + 1)).long()[:, None]
        + torch.arange(size, device=device)
        for stream, size in ((noise.CROP_ROW, h), (noise.CROP_COLUMN, w))
    )
    padded = F.pad(images, (border,) * 4)
    sample = torch.arange(n, device=device)[:, None, None, None]
    channel = torch.arange(c, device=device)[None, :, None, None]
    return padded[sample, channel, rows[:, None, :, None], columns[:, None, None, :]]
