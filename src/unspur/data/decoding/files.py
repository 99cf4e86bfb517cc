"""Labelled images in files, which are decoded whenever they are needed."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from ...errors import DataError
from ...store.hashing import digest
from . import pixels
from .pixels import CROPS, Bytes, Crop, UnreadableImage

BLOCK = 64  # files a thread reads at a time: single files would be slower than no threads at all
TRIAL, TRIAL_SECONDS = 32, 0.02  # the most files that are read first, and for how long
QUICK, FEW_THREADS = 0.0005, 2  # seconds for a file below which few threads are faster than many
VERSION = 3  # of the decoding; increase it whenever the pixels change

T = TypeVar("T")
P = TypeVar("P", bound=Path | str)


@dataclass(frozen=True, eq=False)
class Files:
    """A split whose images are in files; they are resized to `size` (height, width)."""

    paths: tuple[Path, ...]
    targets: Tensor
    size: tuple[int, int]
    crop: Crop = "stretch"
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.crop not in CROPS:
            raise DataError(f"there is no crop {self.crop!r}. Choose one of {', '.join(CROPS)}.")
        if min(self.size) < 1:
            raise DataError(
                f"images cannot be resized to {self.size} pixels. Give a size of at least 1."
            )
        if self.targets.shape != (len(self.paths),) or self.targets.dtype != torch.int64:
            raise DataError(
                f"{len(self.paths)} files need as many int64 targets, not "
                f"{tuple(self.targets.shape)} in {self.targets.dtype}."
            )

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def shape(self) -> tuple[int, ...]:
        return (3, *self.size)

    @property
    def dtype(self) -> torch.dtype:
        return torch.uint8

    def take(self, index: Tensor) -> Tensor:
        """Decode the images of some samples."""
        paths = [self.paths[i] for i in index.tolist()]
        images = np.empty((len(paths), *self.shape), np.uint8)
        for place, image in zip(images, in_threads(self._read, paths), strict=True):
            place[:] = image
        return torch.from_numpy(images)

    def _read(self, path: Path) -> Bytes:
        return read(path, self.size, self.crop)

    @cached_property
    def hashes(self) -> tuple[str, ...]:
        """Return a hash of the bytes of each file."""
        return tuple(in_threads(_hash, self.paths))

    @cached_property
    def digest(self) -> str:
        """Return a hash of the bytes of the files, the decoding, the targets and the order."""
        head = f"files {VERSION} {self.size} {self.crop} {' '.join(self.hashes)}"
        return digest(head, self.targets)


def read(path: Path | str, size: tuple[int, int], crop: Crop = "stretch") -> Bytes:
    """Read an image file as (3, height, width); raise DataError if it cannot be read."""
    try:
        return pixels.read(path, size, crop)
    except UnreadableImage as error:
        raise unreadable(path, error) from error


def unreadable(path: Path | str, error: Exception) -> DataError:
    name = pixels.describe_file(str(path))
    if isinstance(error.__cause__ or error, FileNotFoundError):
        return DataError(f"{name} is missing, though it is part of the data set. Put it back.")
    return DataError(f"{name} cannot be read as an image ({error}). Replace it.")


def in_threads(function: Callable[[P], T], paths: Sequence[P]) -> list[T]:
    """Call a function on every path in threads; return the results in order.

    A small file is mostly work for Python, whose threads then wait for each other. So a few files are read
    first, to see how long one takes.
    """
    done, each = _timed(function, paths[:TRIAL])

    def block(start: int) -> list[T]:
        return [function(path) for path in paths[start : start + BLOCK]]

    starts = range(len(done), len(paths), BLOCK)
    with ThreadPoolExecutor(FEW_THREADS if each < QUICK else None) as pool:
        return [*done, *(result for part in pool.map(block, starts) for result in part)]


def _timed(function: Callable[[P], T], paths: Sequence[P]) -> tuple[list[T], float]:
    """Return the results for the first paths, until TRIAL_SECONDS have passed, and the seconds of each.

    The first call is not timed, because it may import something.
    """
    done: list[T] = []
    began = ended = time.perf_counter()
    for path in paths:
        done.append(function(path))
        ended = time.perf_counter()
        began = ended if len(done) == 1 else began
        if ended - began > TRIAL_SECONDS:
            break
    return done, (ended - began) / (len(done) - 1) if len(done) > 1 else math.inf


def _hash(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise unreadable(path, error) from error
