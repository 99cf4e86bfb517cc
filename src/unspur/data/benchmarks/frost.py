"""Textures of frost: photographs if the user has them, otherwise procedural textures."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from ... import noise
from ...errors import DataError
from .layout import SUFFIXES, _pixels

FOLDER = "frost"  # below the data folder
USED = 5  # the original lists six photographs, but only uses the first five
STEP = 5  # photographs are shrunk to a fifth, bilinearly: every fifth pixel, from the third on
SMALLEST = 33  # smallest side of a texture after that, for random crops of 32 pixels
HEIGHT, WIDTH = 96, 128  # of a procedural texture
# Weight of the noise for each grain size in pixels; the sum is as coarse as the photographs.
OCTAVES = {1: 0.45, 2: 0.3, 4: 0.25, 8: 0.3, 16: 0.4, 32: 0.7}
# Mean colour and contrast of each procedural texture; close to those of the photographs.
TINTS = (
    ((80.0, 150.0, 166.0), 18.0),
    ((201.0, 205.0, 214.0), 22.0),
    ((201.0, 205.0, 214.0), 22.0),
    ((138.0, 153.0, 166.0), 29.0),
    ((112.0, 123.0, 135.0), 43.0),
)

Textures = tuple[Tensor, ...]


def find(root: Path) -> Path | None:
    """Return the folder of photographs below the data folder, or None."""
    return root / FOLDER if _files(root / FOLDER) else None


def photographs(folder: Path) -> Textures:
    """Read the first five images of a folder by name, as (3, H, W) in uint8 at a fifth of their size."""
    paths = _files(folder)[:USED]
    if not paths:
        raise DataError(
            f"{folder} holds no frost photograph (.png or .jpg). Put frost1.png ... frost6.jpg there, "
            "or leave the folder out for procedural frost."
        )
    return tuple(_shrink(path) for path in paths)


def procedural() -> Textures:
    """Return five generated textures: noise with several grain sizes on a bluish white; deterministic."""
    return tuple(
        (torch.tensor(colour)[:, None, None] + _grain(number) * contrast)
        .clamp(0, 255)
        .to(torch.uint8)
        for number, (colour, contrast) in enumerate(TINTS)
    )


def _files(folder: Path) -> list[Path]:
    paths = folder.iterdir() if folder.is_dir() else ()
    return sorted(
        path for path in paths if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
    )


def _shrink(path: Path) -> Tensor:
    small = torch.from_numpy(_pixels(path)[:, STEP // 2 :: STEP, STEP // 2 :: STEP].copy())
    if min(small.shape[1:]) < SMALLEST:
        raise DataError(
            f"{path} is too small for a frost texture: it needs {STEP * SMALLEST} pixels a side. "
            "Replace it."
        )
    return small


def _grain(number: int) -> Tensor:
    """Return noise (H, W) with mean 0, standard deviation 1 and several grain sizes."""
    total = torch.zeros(HEIGHT, WIDTH)
    for octave, (size, weight) in enumerate(OCTAVES.items()):
        shape = (1, 1, HEIGHT // size + 2, WIDTH // size + 2)
        coarse = noise.uniform(number, 0, octave, shape) - 0.5
        fine = F.interpolate(coarse, scale_factor=float(size), mode="bilinear")
        total += weight * fine[0, 0, :HEIGHT, :WIDTH] / 0.29
    return (total - total.mean()) / total.std()
