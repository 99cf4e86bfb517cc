"""Images inside a page: data URIs, and heat maps over pictures."""

from __future__ import annotations

import base64
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

Pixels = NDArray[np.uint8]

SMALL = 48  # pictures up to this many pixels per side are stored as PNG, larger ones as JPEG
HEAT = np.array([230.0, 97.0, 0.0])


def uri(picture: Tensor | Pixels) -> str:
    """Return a picture (3, H, W), or (H, W, 3) as an array, as a data URI."""
    pixels = picture if isinstance(picture, np.ndarray) else rows(picture)
    small = max(pixels.shape[:2]) <= SMALL
    file = io.BytesIO()
    image = Image.fromarray(np.ascontiguousarray(pixels))
    if small:
        image.save(file, "PNG", optimize=True)
    else:
        image.save(file, "JPEG", quality=82)
    kind = "png" if small else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"


def rows(picture: Tensor) -> Pixels:
    """Return a picture (3, H, W) as an array (H, W, 3)."""
    pixels: Pixels = picture.permute(1, 2, 0).numpy()
    return pixels


def overlay(picture: Tensor, heat: Tensor) -> Pixels:
    """Draw a picture in grey with the heat map in orange over it."""
    grey = rows(picture).astype(np.float64) @ [0.299, 0.587, 0.114]
    weight = (heat.numpy() / 255.0)[..., None]
    base = 40 + 0.6 * grey[..., None]  # never black or white: orange is visible everywhere
    mixed: Pixels = (base * (1 - weight) + HEAT * weight).round().astype(np.uint8)
    return mixed
