"""Ten corruptions of small photographs, each with five strengths.

These are the corruptions of CIFAR-10-C with its parameters for 32 x 32 pixels, in the order of the CIFAR-10
classes that they belong to in the biased benchmark. They work on whole batches. The random numbers of an
image depend on (seed, corruption, index of the image), so its pixels do not depend on the batch. For the
same reason all arithmetic is elementwise or sums in a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from ... import noise
from ...errors import DataError
from .frost import Textures, procedural
from .hsv import from_hsv, to_hsv

SIDE = 32
BLOCK = 256  # images per block, so that their float64 pixels fit into the processor's cache
SEVERITIES = (1, 2, 3, 4, 5)
FIRST_STREAM = 500  # streams of random numbers: after those of training, before those of the masks

Border = Literal["nearest", "mirror", "reflect"]  # ..aabb..  ..cbabc..  ..baabc..


@dataclass(frozen=True)
class Draws:
    """The random numbers of a batch, which depend on the index of each image."""

    seed: int
    index: Tensor
    stream: int

    def uniform(self, *shape: int) -> Tensor:
        """Return numbers in (0, 1), (N, *shape), in float64."""
        return noise.uniform(self.seed, self.index, self.stream, shape).double()


@dataclass(frozen=True)
class ImageBatch:
    """Pixels (N, 3, 32, 32) in uint8, the strength of the corruption, and the random numbers."""

    pixels: Tensor
    severity: int
    draws: Draws
    textures: Textures

    @property
    def unit(self) -> Tensor:
        """Return the pixels in [0, 1], in float64."""
        return self.pixels.double() / 255


def corrupt(
    images: Tensor,
    kinds: Tensor,
    index: Tensor,
    *,
    seed: int = 0,
    severity: int = 5,
    textures: Textures | None = None,
) -> Tensor:
    """Corrupt images (N, 3, 32, 32) in uint8; `kinds` is the number of the corruption of each image.

    `index` gives the numbers of the images in the whole data set. Without `textures`, frost is procedural.
    """
    _check(images, kinds, index, severity)
    textures = procedural() if textures is None else textures
    out = torch.empty_like(images)
    for kind, function in enumerate(CORRUPTIONS.values()):
        for rows in torch.split(torch.nonzero(kinds == kind).flatten(), BLOCK):
            draws = Draws(seed, index[rows], FIRST_STREAM + kind)
            batch = ImageBatch(images[rows].contiguous(), severity, draws, textures)
            # Conversion to uint8 truncates, as in the original; rounding would change a third of all values.
            out[rows] = function(batch).clamp_(0, 255).to(torch.uint8)
    return out


def _check(images: Tensor, kinds: Tensor, index: Tensor, severity: int) -> None:
    if images.shape[1:] != (3, SIDE, SIDE) or images.dtype != torch.uint8:
        raise DataError(
            f"corruptions are made for (N, 3, {SIDE}, {SIDE}) in uint8, not "
            f"{tuple(images.shape)} in {images.dtype}."
        )
    if severity not in SEVERITIES:
        raise DataError(f"there is no severity {severity}. Choose one of 1, 2, 3, 4, 5.")
    if not kinds.shape == index.shape == (len(images),):
        raise DataError(
            f"{len(images)} images need as many corruptions and indices, not {tuple(kinds.shape)} "
            f"and {tuple(index.shape)}."
        )
    if len(kinds) and not 0 <= int(kinds.min()) <= int(kinds.max()) < len(CORRUPTIONS):
        raise DataError(f"corruptions are numbered 0..{len(CORRUPTIONS) - 1}.")


# Each function returns values on the scale of bytes, before they are clipped to 0..255.


def brightness(batch: ImageBatch) -> Tensor:
    """Add c to the value of HSV: V + c."""
    c = (0.05, 0.1, 0.15, 0.2, 0.3)[batch.severity - 1]
    hue, saturation, value = to_hsv(batch.unit)
    return from_hsv(hue, saturation, (value + c).clamp(0, 1)) * 255


def contrast(batch: ImageBatch) -> Tensor:
    """Return (x - mean) c + mean, by channel."""
    c = (0.75, 0.5, 0.4, 0.3, 0.15)[batch.severity - 1]
    mean = batch.pixels.sum((2, 3), keepdim=True).double() / (255 * SIDE * SIDE)
    return ((batch.unit - mean) * c + mean) * 255


def gaussian_noise(batch: ImageBatch) -> Tensor:
    """Return x + N(0, c^2), independent for every value."""
    c = (0.04, 0.06, 0.08, 0.09, 0.10)[batch.severity - 1]
    u = batch.draws.uniform(2, 3, SIDE // 2, SIDE)
    radius, angle = torch.sqrt(-2 * torch.log(u[:, 0])), 2 * torch.pi * u[:, 1]
    normal = torch.cat([radius * torch.cos(angle), radius * torch.sin(angle)], 2)
    return (batch.unit + c * normal) * 255


def frost(batch: ImageBatch) -> Tensor:
    """Return c x + d texture, with a random crop of a random texture."""
    c, d = ((1.0, 0.2), (1.0, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))[batch.severity - 1]
    u = batch.draws.uniform(3)
    which = (u[:, 0] * len(batch.textures)).long()
    out = batch.pixels.double() * c
    for row, (number, place) in enumerate(zip(which.tolist(), u[:, 1:].tolist(), strict=True)):
        texture = batch.textures[number]
        top, left = (
            int(at * (size - SIDE)) for at, size in zip(place, texture.shape[1:], strict=True)
        )
        out[row] += d * texture[:, top : top + SIDE, left : left + SIDE].double()
    return out


def elastic_transform(batch: ImageBatch) -> Tensor:
    """Apply a random affine map of three points, then displace by smoothed noise; both bilinear."""
    amplitude, sigma, jitter = (
        (0.0, 0.0, 0.08),
        (0.05, 0.2, 0.07),
        (0.08, 0.06, 0.06),
        (0.1, 0.04, 0.05),
        (0.1, 0.03, 0.03),
    )[batch.severity - 1]
    u = 2 * batch.draws.uniform(6 + 2 * SIDE * SIDE) - 1
    place = _affine(u[:, :6].reshape(-1, 3, 2) * jitter * SIDE)
    # Coordinates for `grid_sample`: -1 and 1 are the centres of the outer pixels, or their outer edges.
    grid = (place * (2 / (SIDE - 1)) - 1).movedim(1, -1)
    moved = F.grid_sample(batch.unit, grid, padding_mode="reflection", align_corners=True)
    if amplitude:
        shift = u[:, 6:].reshape(-1, 2, SIDE, SIDE)
        shift = _smooth(shift, sigma * SIDE, truncate=3, border="reflect") * amplitude * SIDE
        grid = ((2 * (_PLACE + shift) + 1) / SIDE - 1).movedim(1, -1)
        moved = F.grid_sample(moved, grid, padding_mode="reflection", align_corners=False)
    return moved * 255


def gaussian_blur(batch: ImageBatch) -> Tensor:
    """Smooth by a Gaussian of width c, cut at 4 c."""
    c = (0.4, 0.6, 0.7, 0.8, 1.0)[batch.severity - 1]
    return _smooth(batch.unit, c, truncate=4, border="nearest") * 255


def defocus_blur(batch: ImageBatch) -> Tensor:
    """Convolve with a disc whose edge is smoothed."""
    radius, sigma = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1))[batch.severity - 1]
    kernel = _disc(radius, sigma)
    pad = len(kernel) // 2
    x = _extend(_extend(batch.unit, 2, pad, "mirror"), 3, pad, "mirror")
    out = torch.zeros_like(batch.pixels, dtype=torch.float64)
    for (row, column), weight in np.ndenumerate(kernel):
        if weight > 1e-12:  # smaller weights cannot change a byte
            out += x[:, :, row : row + SIDE, column : column + SIDE] * float(weight)
    return out * 255


def impulse_noise(batch: ImageBatch) -> Tensor:
    """Set a share c of the values to 0 or 255, with equal probability."""
    c = (0.01, 0.02, 0.03, 0.05, 0.07)[batch.severity - 1]
    u = batch.draws.uniform(3, SIDE, SIDE)
    out = batch.pixels.double()
    out[u < c] = 0
    out[u < c / 2] = 255
    return out


def saturate(batch: ImageBatch) -> Tensor:
    """Change the saturation of HSV: c S + d."""
    c, d = ((0.3, 0.0), (0.1, 0.0), (1.5, 0.0), (2.0, 0.1), (2.5, 0.2))[batch.severity - 1]
    hue, saturation, value = to_hsv(batch.unit)
    return from_hsv(hue, (saturation * c + d).clamp(0, 1), value) * 255


def pixelate(batch: ImageBatch) -> Tensor:
    """Shrink to c times the size and enlarge again, both by averaging over boxes, in bytes."""
    side = int(SIDE * (0.95, 0.9, 0.85, 0.75, 0.65)[batch.severity - 1])
    out = np.empty((len(batch.pixels), SIDE, SIDE, 3), np.uint8)
    for row, pixels in enumerate(batch.pixels.permute(0, 2, 3, 1).contiguous().numpy()):
        small = Image.fromarray(pixels).resize((side, side), Image.Resampling.BOX)
        out[row] = np.asarray(small.resize((SIDE, SIDE), Image.Resampling.BOX))
    return torch.from_numpy(out).permute(0, 3, 1, 2).double()


CORRUPTIONS: dict[str, Callable[[ImageBatch], Tensor]] = {  # in the order of their classes
    "brightness": brightness,
    "contrast": contrast,
    "gaussian noise": gaussian_noise,
    "frost": frost,
    "elastic transform": elastic_transform,
    "gaussian blur": gaussian_blur,
    "defocus blur": defocus_blur,
    "impulse noise": impulse_noise,
    "saturate": saturate,
    "pixelate": pixelate,
}


def _affine(jitter: Tensor) -> Tensor:
    """Return the source position of each pixel, (N, 2, 32, 32), if three points move by `jitter`."""
    points = torch.tensor([[26.0, 26.0], [26.0, 6.0], [6.0, 6.0]], dtype=torch.float64)
    ones = torch.ones(len(jitter), 3, 1, dtype=torch.float64)
    back: Tensor = torch.linalg.solve(
        torch.cat([points + jitter, ones], 2), points.expand_as(jitter)
    )
    across, down, start = back[..., None, None].unbind(1)
    return across * _PLACE[0] + down * _PLACE[1] + start


# The column and the row of every pixel.
_PLACE = torch.stack(torch.meshgrid(*[torch.arange(SIDE, dtype=torch.float64)] * 2, indexing="xy"))


def _smooth(x: Tensor, sigma: float, *, truncate: float, border: Border) -> Tensor:
    """Smooth by a Gaussian along rows and columns, its kernel cut at `truncate` widths."""
    radius = int(truncate * sigma + 0.5)
    weights = np.exp(-0.5 / sigma**2 * np.arange(-radius, radius + 1) ** 2)
    weights /= weights.sum()
    for dim in (2, 3):
        wide = _extend(x, dim, radius, border)
        x = wide.narrow(dim, radius, SIDE) * weights[radius]
        for step in range(radius):
            pair = wide.narrow(dim, step, SIDE) + wide.narrow(dim, 2 * radius - step, SIDE)
            x += pair * weights[step]
    return x


def _extend(x: Tensor, dim: int, pad: int, border: Border) -> Tensor:
    """Continue the image by `pad` pixels on both sides of one dimension."""
    place = torch.arange(-pad, SIDE + pad)
    if border == "nearest":
        place = place.clamp(0, SIDE - 1)
    elif border == "mirror":
        place = place % (2 * SIDE - 2)
        place = torch.minimum(place, 2 * SIDE - 2 - place)
    else:
        place = place % (2 * SIDE)
        place = torch.minimum(place, 2 * SIDE - 1 - place)
    return x.index_select(dim, place)


def _disc(radius: float, sigma: float) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Return a disc of sum 1, smoothed by a 3 x 3 Gaussian: 5 x 5 in float32, as the original's."""
    squares = np.arange(-2, 3) ** 2
    disc = (squares[:, None] + squares <= radius**2).astype(np.float32)
    disc /= disc.sum()
    bell = np.exp(-0.5 / sigma**2 * np.array([1.0, 0.0, 1.0]))
    bell = (bell / bell.sum()).astype(np.float32)
    for axis in (0, 1):
        disc = np.apply_along_axis(np.convolve, axis, disc, bell, "same").astype(np.float32)
    return disc
