"""Pixels that take time to decode or to make: done once, then kept as a file.

A kept file is a NumPy array of bytes with its sha256 behind it. It appears only when it is complete, is
checked when it is opened, and is mapped instead of read, so that a set may be larger than the memory.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ...errors import DataError
from .files import BLOCK, VERSION, read, unreadable
from .pixels import CROPS, Bytes, Crop

Shape = tuple[int, ...]


def decode(
    paths: Sequence[Path],
    *,
    size: int,
    crop: Crop = "stretch",
    cache: Path | None = None,
    name: str = "images",
) -> Tensor:
    """Image files as (N, 3, size, size) in uint8, decoded and resized in parallel."""
    if crop not in CROPS:
        raise DataError(f"there is no crop {crop!r}. Choose one of {', '.join(CROPS)}.")
    if size < 1:
        raise DataError(f"images cannot be resized to {size} pixels. Give a size of at least 1.")
    about = "" if cache is None else f"{VERSION} {size} {crop}\n{_facts(paths)}"
    blocks = partial(_decoded, paths, size, crop)
    return kept(blocks, (len(paths), 3, size, size), cache=cache, name=name, about=about)


def kept(
    blocks: Callable[[], Iterator[Bytes]],
    shape: Shape,
    *,
    cache: Path | None,
    name: str,
    about: str,
) -> Tensor:
    """All blocks as one uint8 tensor; with a `cache` folder they are asked for only once.

    `about` says all that the pixels depend on. A damaged file is made again and a folder that cannot be
    written does without, each with a warning.
    """
    if cache is None:
        return _gathered(blocks(), shape)
    path = cache / f"{name}-{hashlib.sha256(about.encode()).hexdigest()[:16]}.npy"
    if (found := _opened(path, shape)) is not None:
        return found
    if path.exists():
        warnings.warn(f"{path} is damaged; its images are made again.", stacklevel=2)
    try:
        _write(path, blocks(), shape)
    except OSError as error:
        warnings.warn(f"cannot keep {path}: {error.strerror}.", stacklevel=2)
        return _gathered(blocks(), shape)
    made = _opened(path, shape)
    return _gathered(blocks(), shape) if made is None else made


def _gathered(blocks: Iterator[Bytes], shape: Shape) -> Tensor:
    whole = np.empty(shape, np.uint8)
    start = 0
    for block in blocks:
        whole[start : start + len(block)] = block
        start += len(block)
    return torch.from_numpy(whole)


def _opened(path: Path, shape: Shape) -> Tensor | None:
    """The array in a kept file, or None where there is none that is whole."""
    try:
        # Mapped copy-on-write: the tensor may be changed, the file is not.
        array = np.lib.format.open_memmap(path, mode="c")
        if array.shape != shape or array.dtype != np.uint8:
            return None
        with path.open("rb") as file:
            file.seek(-hashlib.sha256().digest_size, os.SEEK_END)
            whole = file.read() == hashlib.sha256(array.data).digest()
    except (OSError, ValueError, EOFError):
        return None
    return torch.from_numpy(array) if whole else None


def _write(path: Path, blocks: Iterator[Bytes], shape: Shape) -> None:
    """Write beside the file's place, sync, and rename it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.stem}.{secrets.token_hex(4)}")
    header = {"descr": "|u1", "fortran_order": False, "shape": shape}
    checksum = hashlib.sha256()
    try:
        with beside.open("xb") as file:
            np.lib.format.write_array_header_2_0(file, header)
            for block in blocks:
                data = np.ascontiguousarray(block).data
                checksum.update(data)
                file.write(data)
            file.write(checksum.digest())
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _facts(paths: Sequence[Path]) -> str:
    """What tells whether a file has changed: its name, size and time."""
    lines = []
    for path in paths:
        try:
            facts = path.stat()
        except OSError as error:
            raise unreadable(path, error) from error
        lines.append(f"{path.parent.name}/{path.name} {facts.st_size} {facts.st_mtime_ns}")
    return "\n".join(lines)


def _decoded(paths: Sequence[Path], size: int, crop: Crop) -> Iterator[Bytes]:
    def block(start: int) -> Bytes:
        return np.stack([read(path, (size, size), crop) for path in paths[start : start + BLOCK]])

    with ThreadPoolExecutor() as pool:
        yield from pool.map(block, range(0, len(paths), BLOCK))
