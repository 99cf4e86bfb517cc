"""Random flips and crops of a batch, as functions of (seed, step, position in the batch)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import noise
from ..parallel.team import Rows

Augment = Literal["none", "flip", "crop-flip", "resized-crop-flip"]


def augment_images(
    images: Tensor, how: Augment, *, seed: int, step: Tensor, rows: Rows | None = None
) -> Tensor:
    """Flip and crop images at random, keyed by the position in the batch.

    `crop-flip` adds a black border of four pixels and crops a random window; `resized-crop-flip` crops 70 to
    100 % of the area, with aspect ratios from 3:4 to 4:3, and resizes it to the original size. `rows` gives
    the rows of the batch that the images are, if they are only a part of it.
    """
    if how == "none":
        return images
    draw = Draw(len(images), seed, step, images.device, rows)
    flip = draw(noise.FLIP) < 0.5
    images = torch.where(flip[:, None, None, None], images.flip(3), images)
    if how == "crop-flip":
        return _crop_images(images, draw)
    return _zoom_images(images, draw) if how == "resized-crop-flip" else images


@dataclass(frozen=True)
class Draw:
    """Uniform random numbers for `count` images; with `rows`, those of these rows of a batch."""

    count: int
    seed: int
    step: Tensor
    device: torch.device
    rows: Rows | None = None

    def __call__(self, stream: int, *each: int) -> Tensor:
        total = self.count if self.rows is None else self.rows.total
        u = noise.uniform(self.seed, self.step, stream, (total, *each), self.device)
        return u if self.rows is None else u[self.rows.slice]


def _crop_images(images: Tensor, draw: Draw, *, border: int = 4) -> Tensor:
    n, c, h, w = images.shape
    device = images.device
    rows, columns = (
        (draw(stream) * (2 * border + 1)).long()[:, None] + torch.arange(size, device=device)
        for stream, size in ((noise.CROP_ROW, h), (noise.CROP_COLUMN, w))
    )
    padded = F.pad(images, (border,) * 4)
    sample = torch.arange(n, device=device)[:, None, None, None]
    channel = torch.arange(c, device=device)[None, :, None, None]
    return padded[sample, channel, rows[:, None, :, None], columns[:, None, None, :]]


AREA, RATIO, TRIES = (0.7, 1.0), (3 / 4, 4 / 3), 10


def _zoom_images(images: Tensor, draw: Draw) -> Tensor:
    """Crop a random part of every image and resize it to the original size, with bilinear interpolation."""
    n, _, high, wide = images.shape
    top, left, h, w = _windows((high, wide), draw)
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


def _windows(size: tuple[int, int], draw: Draw) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return windows as (top, left, high, wide): the first random window that fits, or the whole image."""
    high, wide = size
    area, ratio, row, column = (
        draw(stream, tries)
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
    """Return the source positions of `size` pixels for each image, all inside its window."""
    pixel = torch.arange(size, device=start.device) + 0.5
    inside = pixel * (length / size)[:, None] - 0.5
    inside = torch.minimum(inside.clamp(min=0), (length - 1)[:, None])
    return start[:, None] + inside
