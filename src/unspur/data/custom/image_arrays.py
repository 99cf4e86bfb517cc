"""Images as people hold them in memory (arrays, PIL images, paths) as one tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ...errors import DataError
from ..decoding import pixels

CHANNELS = (1, 3, 4)  # grey, colour, colour with alpha
Shape = tuple[int, int, int]  # channels, height, width


def images_tensor(images: Any, *, shape: Shape | None = None, limit: int = 64) -> Tensor:
    """Return images as (N, C, H, W), uint8 or float32.

    `images` are an array, or a sequence of PIL images, arrays or paths. An array is (N, H, W), (N, H, W, C)
    or (N, C, H, W); one of shape (N, features) has flattened images of `shape`, or square grey ones. PIL
    images and files are resized to `shape`; without it to the size they share, at most `limit` pixels a side.
    """
    if isinstance(images, Tensor):
        images = images.detach().cpu().numpy()
    if isinstance(images, str | bytes | Path):
        raise DataError(f"{images!r} is one path; give a list of paths.")
    if not hasattr(images, "shape"):
        images = list(images)
        if images and isinstance(images[0], Image.Image | str | Path):
            return _from_pictures(images, shape, limit)
        images = _stack(images)
    return _from_array(np.asarray(images), shape)


def _stack(images: Sequence[Any]) -> Any:
    try:
        return np.stack([np.asarray(image) for image in images])
    except ValueError as error:
        raise DataError(
            f"the images cannot be one array ({error}). Resize them all to one shape, or give PIL images."
        ) from None


def _from_array(array: Any, shape: Shape | None) -> Tensor:
    """Return an array of images in the layout and type that networks take."""
    if array.ndim == 2:
        array = array.reshape(len(array), *(shape or _square(array.shape[1])))
    elif array.ndim == 3:
        array = array[:, None]
    elif array.ndim != 4:
        raise DataError(
            f"images must be (N, H, W), (N, H, W, C), (N, C, H, W) or (N, features), not {array.shape}."
        )
    elif array.shape[3] in CHANNELS and array.shape[1] not in CHANNELS:
        array = array.transpose(0, 3, 1, 2)
    elif array.shape[1] not in CHANNELS:
        raise DataError(f"images of shape {array.shape} have neither 1, 3 nor 4 channels.")
    return _typed(np.ascontiguousarray(array))


def _square(features: int) -> Shape:
    side = math.isqrt(features)
    if side * side != features:
        raise DataError(
            f"X has {features} features, which is no square image. Give the shape of an image: "
            "image_shape=(channels, height, width)."
        )
    return 1, side, side


def _typed(array: Any) -> Tensor:
    """Return uint8 as it is, other whole numbers from 0 to 255 as uint8, and floats as float32."""
    if array.dtype == np.uint8:
        return torch.from_numpy(array)
    if array.dtype.kind in "biu":
        if array.size and not 0 <= array.min() <= array.max() <= 255:
            raise DataError("pixels that are whole numbers must lie between 0 and 255.")
        return torch.from_numpy(array.astype(np.uint8))
    try:
        return torch.from_numpy(array.astype(np.float32))
    except (TypeError, ValueError):
        raise DataError(f"pixels must be numbers, not {array.dtype}.") from None


def _from_pictures(images: Sequence[Any], shape: Shape | None, limit: int) -> Tensor:
    """Return PIL images or files in colour, upright, all of one size."""
    size = shape[1:] if shape else _common_size(images, limit)
    return torch.from_numpy(np.stack([_read(image, size) for image in images]))


def _common_size(images: Sequence[Any], limit: int) -> tuple[int, int]:
    """Return the size that all images share, made smaller if need be; a square if they share none."""
    sizes = {_measure(image) for image in images}
    if len(sizes) > 1:
        side = min(limit, max(max(size) for size in sizes))
        return side, side
    ((high, wide),) = sizes
    scale = min(1.0, limit / max(high, wide))
    return max(1, round(high * scale)), max(1, round(wide * scale))


def _measure(image: Any) -> tuple[int, int]:
    if isinstance(image, Image.Image):
        return image.height, image.width
    try:
        return pixels.measure(image)
    except pixels.UnreadableImage as error:
        raise _unreadable(image, error) from None


def _read(image: Any, size: tuple[int, int]) -> Any:
    if isinstance(image, Image.Image):
        small = pixels.colours(image).resize(size[::-1], Image.Resampling.BILINEAR)
        return np.asarray(small).transpose(2, 0, 1)
    try:
        return pixels.read(image, size)
    except pixels.UnreadableImage as error:
        raise _unreadable(image, error) from None


def _unreadable(image: object, error: Exception) -> DataError:
    return DataError(f"{image}: not a readable image ({error}).")
