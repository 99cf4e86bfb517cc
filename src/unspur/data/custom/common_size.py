"""The size that images of different sizes are resized to."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from ..decoding import pixels

MEASURED = 200  # images that are measured to choose the common size

T = TypeVar("T")


def common_size(paths: Sequence[Path | str], limit: int) -> tuple[int, int]:
    """Return the (height, width) that image files are resized to, with the longer side at most `limit`."""
    return size_for(list(_sizes(to_measure(paths))), limit)


def to_measure(images: Sequence[T]) -> Sequence[T]:
    """Return a few images at even distances, or all if there are few."""
    return images[:: max(1, len(images) // MEASURED)]


def size_for(sizes: Sequence[tuple[int, int]], limit: int) -> tuple[int, int]:
    """Return the common size of images that have these sizes (height, width).

    Images of several sizes are stretched to squares, because cropping could cut off the object.
    """
    if not sizes:
        return limit, limit
    if len(set(sizes)) == 1:
        height, width = sizes[0]
        shrink = min(1.0, limit / max(height, width))
        return max(1, round(height * shrink)), max(1, round(width * shrink))
    side = min(limit, int(statistics.median(max(size) for size in sizes)))
    return side, side


def _sizes(paths: Sequence[Path | str]) -> Iterator[tuple[int, int]]:
    for path in paths:
        try:
            yield pixels.measure(path)
        except pixels.UnreadableImage:
            continue  # it is reported when all images are decoded
