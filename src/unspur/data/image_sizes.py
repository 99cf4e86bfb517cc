"""Change the size or the channels of images in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

from .splits import Part, Split, Splits

RESIZED_AT_ONCE = 1000  # images


def in_colour(splits: Splits) -> Splits:
    """Return the splits with three equal channels where images in memory have a single one."""
    parts = splits.parts()
    if splits.train.shape[0] != 1 or not all(isinstance(part, Split) for part in parts.values()):
        return splits
    coloured: dict[str, Any] = {
        name: Split(part.images.repeat(1, 3, 1, 1), part.targets, part.names)
        for name, part in parts.items()
        if isinstance(part, Split)
    }
    return replace(splits, **coloured)


def shrink(splits: Splits, limit: int) -> Splits:
    """Return the splits with images in memory reduced, so that no side is longer than `limit` pixels."""
    high, wide = splits.train.shape[1:]
    parts = splits.parts()
    if max(high, wide) <= limit or not all(isinstance(part, Split) for part in parts.values()):
        return splits
    scale = limit / max(high, wide)
    return resize(splits, (max(1, round(high * scale)), max(1, round(wide * scale))))


def resize(splits: Splits, size: tuple[int, int]) -> Splits:
    """Return the splits with images of another size (high, wide), in memory."""
    if splits.train.shape[1:] == size:
        return splits
    resized: dict[str, Any] = {name: _resize(p, size) for name, p in splits.parts().items()}
    return replace(splits, **resized)


def _resize(part: Part, size: tuple[int, int]) -> Split:
    """Return the images of a part at another size, with the same dtype."""
    resized = torch.empty((len(part), part.shape[0], *size), dtype=part.dtype)
    for index in torch.split(torch.arange(len(part)), RESIZED_AT_ONCE):
        images = F.interpolate(part.take(index).float(), size=size, mode="bilinear", antialias=True)
        resized[index] = (
            images.round().clamp(0, 255).byte() if part.dtype == torch.uint8 else images
        )
    return Split(resized, part.targets, part.names)
