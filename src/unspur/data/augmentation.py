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
    """Flip and crop images at random.

    `crop-flip` pads the image with four black pixels on each side and crops it to its original size;
    `resized-crop-flip` crops 70 to 100 % of the area, with an aspect ratio from 3:4 to 4:3, and resizes the
    crop to the original size. If the images are only a part of a batch, `rows` says which rows they are.
    """
    if how == "none":
        return images
    draw = UniformNumbers(len(images), seed, step, images.device, rows)
    flip = draw(noise.FLIP) < 0.5
    images = torch.where(flip[:, None, None, None], images.flip(3), images)
    if how == "crop-flip":
        return _crop_images(images, draw)
    return _zoom_images(images, draw) if how == "resized-crop-flip" else images


# No `eq`: torch 2.11 hashes an object while it compiles a step, before the object has its fields.
@dataclass(frozen=True, eq=False)
class UniformNumbers:
    """Uniform random numbers for each of `count` images, or for the given rows of a larger batch."""

    count: int
    seed: int
    step: Tensor
    device: torch.device
    rows: Rows | None = None

    def __call__(self, stream: int, *shape: int) -> Tensor:
        total = self.count if self.rows is None else self.rows.total
        u = noise.uniform(self.seed, self.step, stream, (total, *shape), self.device)
        return u if self.rows is None else u[self.rows.slice]


def _crop_images(images: Tensor, draw: UniformNumbers, *, border: int = 4) -> Tensor:
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


def _zoom_images(images: Tensor, draw: UniformNumbers) -> Tensor:
    """Resize a random crop of every image to the size of the image, with bilinear interpolation."""
    n, _, height, width = images.shape
    top, left, h, w = _crops((height, width), draw)
    rows, columns = _source_positions(top, h, height), _source_positions(left, w, width)
    # Coordinates of grid_sample: -1 is the left edge of the first pixel, 1 the right edge of the last one.
    across = (2 * (columns + 0.5) / width - 1)[:, None, :].expand(n, height, width)
    down = (2 * (rows + 0.5) / height - 1)[:, :, None].expand(n, height, width)
    zoomed = F.grid_sample(
        images.float(),
        torch.stack([across, down], dim=3),
        mode="bilinear",
        padding_mode="border",
        align_corners=False,
    )
    return zoomed.round().to(images.dtype) if images.dtype == torch.uint8 else zoomed


def _crops(size: tuple[int, int], draw: UniformNumbers) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return one crop per image as (top, left, height, width).

    The crop is the first of TRIES random ones that fits into the image, or the whole image if none does.
    """
    height, width = size
    area, ratio, row, column = (
        draw(stream, tries)
        for stream, tries in (
            (noise.CROP_AREA, TRIES),
            (noise.CROP_RATIO, TRIES),
            (noise.CROP_ROW, 1),
            (noise.CROP_COLUMN, 1),
        )
    )
    area = height * width * (AREA[0] + (AREA[1] - AREA[0]) * area)
    ratio = torch.exp(math.log(RATIO[0]) + math.log(RATIO[1] / RATIO[0]) * ratio)
    w, h = torch.sqrt(area * ratio).round(), torch.sqrt(area / ratio).round()
    fits = (w <= width) & (h <= height)
    first = fits.long().argmax(1, keepdim=True)
    any_fits = fits.any(1)
    w = torch.where(any_fits, w.gather(1, first).squeeze(1), float(width))
    h = torch.where(any_fits, h.gather(1, first).squeeze(1), float(height))
    top, left = (
        (u.squeeze(1) * (1 + room)).floor() for u, room in ((row, height - h), (column, width - w))
    )
    return top, left, h, w


def _source_positions(start: Tensor, length: Tensor, size: int) -> Tensor:
    """Return the source position of each of `size` output pixels, clamped to the crop of its image."""
    pixel = torch.arange(size, device=start.device) + 0.5
    inside = pixel * (length / size)[:, None] - 0.5
    inside = torch.minimum(inside.clamp(min=0), (length - 1)[:, None])
    return start[:, None] + inside
