"""Parts of an image that a model may rely on: each can be hidden, or replaced by that of another image.

Images are batches (N, C, H, W) in uint8, or in floats as in training. `exchange` replaces the cue of each
image by the cue of a donor, which is another image, and does not change the rest. It does not matter that the
result looks unnatural: treated and control images differ only in the class of their donors (trials.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import UsageError

BORDER = 1 / 8  # of the shorter side: the width of the border
CORNER = 1 / 5  # of the shorter side: the side of a corner
BLUR = 1 / 16  # of the shorter side: the standard deviation of the blur that hides detail
COARSE = 1 / 16  # cycles per pixel; higher frequencies are detail
LUMA = (0.299, 0.587, 0.114)
EPSILON = 1e-3


class Cue(Protocol):
    """A part of an image; `title` names it within a sentence."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    def hide(self, images: Tensor) -> Tensor: ...
    def exchange(self, images: Tensor, donors: Tensor) -> Tensor: ...


def as_floats(images: Tensor) -> Tensor:
    """Return images as floats; uint8 is scaled to the range from 0 to 1."""
    return images / 255 if images.dtype == torch.uint8 else images.float()


def restore(values: Tensor, like: Tensor) -> Tensor:
    """Convert floats to the dtype of the images `like`; the inverse of `as_floats`."""
    if like.dtype != torch.uint8:
        return values.to(like.dtype)
    return (values.clamp(0, 1) * 255).round().to(torch.uint8)


def luminance(values: Tensor) -> Tensor:
    """Return the brightness of images (N, 1, H, W)."""
    if values.shape[1] != 3:
        return values.mean(1, keepdim=True)
    weights = torch.tensor(LUMA, device=values.device).view(1, 3, 1, 1)
    return (values * weights).sum(1, keepdim=True)


def neutral(images: Tensor) -> Tensor:
    """Return the mean colour of all images, which replaces hidden pixels."""
    return restore(as_floats(images).mean((0, 2, 3), keepdim=True), images)


# -- a fixed place ------------------------------------------------------------------------------------


class FixedPlace(ABC):
    """A fixed place in every image."""

    @abstractmethod
    def area(self, images: Tensor) -> Tensor:
        """Return a mask (H, W) of the pixels that belong to the cue."""

    def hide(self, images: Tensor) -> Tensor:
        return torch.where(self.area(images), neutral(images), images)

    def exchange(self, images: Tensor, donors: Tensor) -> Tensor:
        return torch.where(self.area(images), donors, images)


@dataclass(frozen=True)
class Border(FixedPlace):
    """A frame around the image."""

    name: str = "border"
    title: str = "the border"

    def area(self, images: Tensor) -> Tensor:
        high, wide = images.shape[2:]
        width = max(1, round(BORDER * min(high, wide)))
        area = torch.ones(high, wide, dtype=torch.bool)
        area[width : high - width, width : wide - width] = False
        return area

    def exchange(self, images: Tensor, donors: Tensor) -> Tensor:
        """Copy the donor's border, but keep the lighting of the image, so that only the border changes."""
        values, others = as_floats(images), as_floats(donors)
        slopes = [_plane(luminance(each)) for each in (values, others)]
        own, other = (plane - plane.mean((2, 3), keepdim=True) for plane in slopes)
        return torch.where(self.area(images), restore(others - other + own, images), images)


@dataclass(frozen=True)
class Corners(FixedPlace):
    """The four corners."""

    name: str = "corners"
    title: str = "the corners"

    def area(self, images: Tensor) -> Tensor:
        high, wide = images.shape[2:]
        side = max(1, round(CORNER * min(high, wide)))
        rows, columns = torch.arange(high), torch.arange(wide)
        outer_rows = (rows < side) | (rows >= high - side)
        outer_columns = (columns < side) | (columns >= wide - side)
        return outer_rows[:, None] & outer_columns


@dataclass(frozen=True)
class Region(FixedPlace):
    """A rectangle, in pixels of the images as the model sees them."""

    left: int
    top: int
    width: int
    height: int
    name: str = "region"
    title: str = "the region"

    def area(self, images: Tensor) -> Tensor:
        high, wide = images.shape[2:]
        right, bottom = self.left + self.width, self.top + self.height
        if min(self.left, self.top) < 0 or right > wide or bottom > high:
            raise UsageError(
                f"the region {self.left},{self.top},{self.width},{self.height} reaches out of the images: "
                f"the model sees {wide} x {high} pixels. Give left, top, width and height within that."
            )
        area = torch.zeros(high, wide, dtype=torch.bool)
        area[self.top : bottom, self.left : right] = True
        return area


# -- the whole image ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Colour:
    """The colour cast: the mean colour relative to the brightness."""

    name: str = "colour"
    title: str = "the colour"

    def hide(self, images: Tensor) -> Tensor:
        """Make images grey."""
        return restore(luminance(as_floats(images)).expand(images.shape), images)

    def exchange(self, images: Tensor, donors: Tensor) -> Tensor:
        """Make images grey, then give them the mean colour of the donors."""
        mean = as_floats(donors).mean((2, 3), keepdim=True)
        light = luminance(mean)
        tint = torch.where(light > EPSILON, mean / light.clamp_min(EPSILON), 1.0)
        return restore(luminance(as_floats(images)) * tint, images)


@dataclass(frozen=True)
class Light:
    """The lighting: the brightness, and its gradient over the image."""

    name: str = "light"
    title: str = "the light"

    def hide(self, images: Tensor) -> Tensor:
        """Make the brightness uniform, and equal for all images."""
        values = as_floats(images)
        plane = _plane(luminance(values))
        return restore(values - plane + plane.mean(), images)

    def exchange(self, images: Tensor, donors: Tensor) -> Tensor:
        values = as_floats(images)
        planes = _plane(luminance(as_floats(donors))) - _plane(luminance(values))
        return restore(values + planes, images)


def _plane(light: Tensor) -> Tensor:
    """Fit a plane to the brightness of each image (N, 1, H, W) by least squares."""
    high, wide = light.shape[2:]
    down = torch.linspace(-1, 1, high).view(1, 1, high, 1).expand(1, 1, high, wide)
    across = torch.linspace(-1, 1, wide).view(1, 1, 1, wide).expand(1, 1, high, wide)
    plane = light.mean((2, 3), keepdim=True).expand_as(light)
    for axis in (down, across):
        slope = (light * axis).sum((2, 3), keepdim=True) / axis.square().sum().clamp_min(EPSILON)
        plane = plane + slope * axis
    return plane


@dataclass(frozen=True)
class Detail:
    """The detail: texture and other fine structure."""

    name: str = "detail"
    title: str = "the detail"

    def hide(self, images: Tensor) -> Tensor:
        """Blur images."""
        sigma = BLUR * min(images.shape[2:])
        reach = max(1, round(3 * sigma))
        place = torch.arange(-reach, reach + 1, dtype=torch.float32)
        kernel = torch.exp(-place.square() / (2 * sigma**2))
        kernel = (kernel / kernel.sum()).expand(images.shape[1], 1, 1, -1)
        values = as_floats(images)
        for weights, sides in ((kernel, (reach, reach, 0, 0)), (kernel.mT, (0, 0, reach, reach))):
            padded = F.pad(values, sides, mode="replicate")
            values = F.conv2d(padded, weights, groups=images.shape[1])
        return restore(values, images)

    def exchange(self, images: Tensor, donors: Tensor) -> Tensor:
        """Replace the amplitudes of high frequencies by those of the donor."""
        high, wide = images.shape[2:]
        squares = torch.fft.fftfreq(high)[:, None].square() + torch.fft.rfftfreq(wide).square()
        return _exchange_amplitudes(images, donors, squares.sqrt() > COARSE)


@dataclass(frozen=True)
class Style:
    """The style: the amplitudes of all frequencies, which hold colour, contrast and texture."""

    name: str = "style"
    title: str = "the style"

    def hide(self, images: Tensor) -> Tensor:
        """Give every image the mean amplitudes of all images."""
        spectrum = torch.fft.rfft2(as_floats(images))
        mean = spectrum.abs().mean(0, keepdim=True)
        even = torch.polar(mean.expand(spectrum.shape), spectrum.angle())
        return restore(torch.fft.irfft2(even, s=tuple(images.shape[2:])), images)

    def exchange(self, images: Tensor, donors: Tensor) -> Tensor:
        high, wide = images.shape[2:]
        return _exchange_amplitudes(images, donors, torch.ones(high, wide // 2 + 1).bool())


def _exchange_amplitudes(images: Tensor, donors: Tensor, frequencies: Tensor) -> Tensor:
    """Replace the amplitudes of some frequencies by those of the donors; the phases do not change."""
    own, other = (torch.fft.rfft2(as_floats(each)) for each in (images, donors))
    amplitudes = torch.where(frequencies, other.abs(), own.abs())
    values = torch.fft.irfft2(torch.polar(amplitudes, own.angle()), s=tuple(images.shape[2:]))
    return restore(values, images)
