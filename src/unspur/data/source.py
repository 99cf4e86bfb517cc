"""Where batches come from: images on the device, turned into network input and augmented there."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import noise
from .splits import Split, fast_layout

Augment = Literal["none", "flip", "crop-flip", "resized-crop-flip"]
CHUNK = 1000  # images a network looks at at once when it does not train
PIXELS = 5_000_000  # or, of small images on a GPU, as many as have so many pixels


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

    def __post_init__(self) -> None:
        # Now, not within a trace (torch.export) or inference mode, where no ordinary tensor can be made.
        with torch.inference_mode(False):
            for values in (self.mean, self.std):
                _column(values, torch.device("cpu"))

    def __call__(self, images: Tensor) -> Tensor:
        x = images / 255 if images.dtype == torch.uint8 else images.float()
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
    `plain` is the network input of all samples, or of some, in order and without augmentation.
    """

    targets: Tensor

    def feed(self, order: Iterator[Tensor]) -> Iterator[tuple[Tensor, ...]]: ...
    def batch(self, index: Tensor, step: Tensor, pixels: Tensor | None = None) -> Batch: ...
    def plain(self, size: int = 0, *, among: Tensor | None = None) -> Iterator[Tensor]: ...


class Labelled:
    """What sources have in common: labels on the device, and how pixels become a batch."""

    def __init__(
        self,
        targets: Tensor,
        *,
        preprocess: Preprocess,
        augment: Augment = "none",
        seed: int = 0,
        conflict: Tensor | None = None,
        bias: Tensor | None = None,
    ):
        self.targets, device = targets, targets.device
        self.preprocess, self.augment, self.seed = preprocess, augment, seed
        none = torch.zeros(len(targets), dtype=torch.bool)
        self.conflict = (none if conflict is None else conflict).to(device)
        self.bias = None if bias is None else bias.to(device)

    def labelled(self, pixels: Tensor, index: Tensor, step: Tensor) -> Batch:
        """The samples `index`, whose pixels these are, augmented for this step."""
        images = augmented(pixels, self.augment, seed=self.seed, step=step)
        return Batch(
            x=self.preprocess(images).contiguous(memory_format=fast_layout(images.device)),
            y=self.targets[index],
            index=index,
            conflict=self.conflict[index],
            step=step,
            bias=None if self.bias is None else self.bias[index],
        )


class Resident(Labelled):
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
        self.images, targets = split.on(device)
        super().__init__(
            targets,
            preprocess=preprocess,
            augment=augment,
            seed=seed,
            conflict=conflict,
            bias=bias,
        )

    def feed(self, order: Iterator[Tensor]) -> Iterator[tuple[Tensor, ...]]:
        return ((index,) for index in order)

    def batch(self, index: Tensor, step: Tensor, pixels: Tensor | None = None) -> Batch:
        """The samples `index`, augmented for this step."""
        return self.labelled(
            gathered(self.images, index) if pixels is None else pixels, index, step
        )

    def plain(self, size: int = 0, *, among: Tensor | None = None) -> Iterator[Tensor]:
        size = size or _at_once(self.images)
        if among is None:
            yield from map(self.preprocess, torch.split(self.images, size))
            return
        where = among.nonzero().squeeze(1).to(self.images.device)
        for index in torch.split(where, size):
            yield self.preprocess(self.images[index])


def _at_once(images: Tensor) -> int:
    """How many images are looked at at once: more of small ones on a GPU, for fewer kernels to launch."""
    few = PIXELS // (images.shape[-1] * images.shape[-2]) if images.is_cuda else 0
    return max(CHUNK, few)


def gathered(images: Tensor, index: Tensor) -> Tensor:
    """Some of the images, in the memory layout that they all have."""
    if images.is_contiguous():
        return images[index]
    return images.permute(0, 2, 3, 1)[index].permute(0, 3, 1, 2)  # channels last


def augmented(images: Tensor, how: Augment, *, seed: int, step: Tensor) -> Tensor:
    """Random flips, and crops, keyed by the position in the batch.

    `crop-flip` cuts a window out of a four-pixel black border; `resized-crop-flip` takes a part of 70 to
    100 % of the area, in proportions of 3:4 to 4:3, and enlarges it to the whole.
    """
    if how == "none":
        return images
    n = len(images)
    flip = noise.uniform(seed, step, noise.FLIP, (n,), images.device) < 0.5
    images = torch.where(flip[:, None, None, None], images.flip(3), images)
    if how == "crop-flip":
        return _cropped(images, seed=seed, step=step)
    return _zoomed(images, seed=seed, step=step) if how == "resized-crop-flip" else images


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


AREA, RATIO, TRIES = (0.7, 1.0), (3 / 4, 4 / 3), 10


def _zoomed(images: Tensor, *, seed: int, step: Tensor) -> Tensor:
    """A random part of every image, enlarged to the whole with bilinear interpolation."""
    n, _, high, wide = images.shape
    top, left, h, w = _windows(n, (high, wide), seed=seed, step=step, device=images.device)
    rows, columns = _places(top, h, high), _places(left, w, wide)
    # grid_sample counts from -1 at the left edge of the first pixel to 1 at the right edge of the last.
    across = (2 * (columns + 0.5) / wide - 1)[:, None, :].expand(n, high, wide)
    down = (2 * (rows + 0.5) / high - 1)[:, :, None].expand(n, high, wide)
    zoomed = F.grid_sample(
        images.float(),
        torch.stack([across, down], dim=3),
        mode="bilinear",
        padding_mode="border",
        align_corners=False,
    )
    return zoomed.round().to(images.dtype) if images.dtype == torch.uint8 else zoomed


def _windows(
    n: int, size: tuple[int, int], *, seed: int, step: Tensor, device: torch.device
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Windows as (top, left, high, wide): the first try that fits, or else the whole image."""
    high, wide = size
    area, ratio, row, column = (
        noise.uniform(seed, step, stream, (n, tries), device)
        for stream, tries in (
            (noise.CROP_AREA, TRIES),
            (noise.CROP_RATIO, TRIES),
            (noise.CROP_ROW, 1),
            (noise.CROP_COLUMN, 1),
        )
    )
    area = high * wide * (AREA[0] + (AREA[1] - AREA[0]) * area)
    ratio = torch.exp(math.log(RATIO[0]) + math.log(RATIO[1] / RATIO[0]) * ratio)
    w, h = torch.sqrt(area * ratio).round(), torch.sqrt(area / ratio).round()
    fits = (w <= wide) & (h <= high)
    first = fits.long().argmax(1, keepdim=True)
    any_fits = fits.any(1)
    w = torch.where(any_fits, w.gather(1, first).squeeze(1), float(wide))
    h = torch.where(any_fits, h.gather(1, first).squeeze(1), float(high))
    top, left = (
        (u.squeeze(1) * (1 + room)).floor() for u, room in ((row, high - h), (column, wide - w))
    )
    return top, left, h, w


def _places(start: Tensor, length: Tensor, size: int) -> Tensor:
    """Where `size` pixels come from in a window, for each image; never from outside it."""
    pixel = torch.arange(size, device=start.device) + 0.5
    inside = pixel * (length / size)[:, None] - 0.5
    inside = torch.minimum(inside.clamp(min=0), (length - 1)[:, None])
    return start[:, None] + inside
