"""A patch that is pasted into images, and the grey patch that is its control."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from ..errors import DataError, UsageError
from .cues import as_floats, restore

LARGEST = 1 / 4  # of the shorter side of the images; a larger patch is scaled down
PLACES = {
    "top-left": (0.0, 0.0),
    "top-right": (0.0, 1.0),
    "bottom-left": (1.0, 0.0),
    "bottom-right": (1.0, 1.0),
    "centre": (0.5, 0.5),
    "top": (0.0, 0.5),
    "bottom": (1.0, 0.5),
    "left": (0.5, 0.0),
    "right": (0.5, 1.0),
    "corner": (0.0, 0.0),
}


@dataclass(frozen=True, eq=False)
class Patch:
    """A patch: pixels (C, H, W) from 0 to 1, opacity (1, H, W), and the place where it is pasted."""

    pixels: Tensor
    opaque: Tensor
    place: str
    name: str = "paste"
    title: str = "the patch"

    def __post_init__(self) -> None:
        if self.place not in PLACES:
            raise UsageError(
                f"there is no place {self.place!r} to paste a patch at. Choose one of {', '.join(PLACES)}."
            )

    def paste(self, images: Tensor) -> Tensor:
        """Return images with the patch."""
        return self._blend(images, self._fit(self.pixels, images))

    def paste_grey(self, images: Tensor) -> Tensor:
        """Return images with a grey patch of the same size, place and opacity."""
        grey = torch.full_like(self.pixels, 0.5)
        return self._blend(images, self._fit(grey, images))

    def _blend(self, images: Tensor, pixels: Tensor) -> Tensor:
        opaque = self._fit(self.opaque, images)
        down, across = PLACES[self.place]
        top = round(down * (images.shape[2] - pixels.shape[1]))
        left = round(across * (images.shape[3] - pixels.shape[2]))
        values = as_floats(images).clone()
        window = values[:, :, top : top + pixels.shape[1], left : left + pixels.shape[2]]
        window.mul_(1 - opaque).add_(opaque * _channels(pixels, images.shape[1]))
        return restore(values, images)

    def _fit(self, patch: Tensor, images: Tensor) -> Tensor:
        """Return the patch, scaled down if it is too large for the images."""
        limit = max(1, round(LARGEST * min(images.shape[2:])))
        if (side := max(patch.shape[1:])) <= limit:
            return patch
        size = [max(1, round(each * limit / side)) for each in patch.shape[1:]]
        return F.interpolate(patch[None], size=size, mode="bilinear", antialias=True)[0]


def _channels(pixels: Tensor, count: int) -> Tensor:
    """Return a patch with as many channels as the images have."""
    return pixels if len(pixels) == count else pixels.mean(0, keepdim=True).expand(count, -1, -1)


def read_patch(path: Path, place: str) -> Patch:
    """Read a patch from an image file; its transparent pixels are not pasted."""
    try:
        with Image.open(path) as file:
            picture = file.convert("RGBA")
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(
            f"{path} cannot be read as an image ({reason}). Give an image file with --paste."
        ) from None
    size = (picture.height, picture.width, 4)
    values = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8).view(size)
    values = values.permute(2, 0, 1) / 255
    return Patch(values[:3], values[3:], place, f"paste {path.name}", f"the patch {path.name}")
