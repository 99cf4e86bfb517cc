"""A cache for pixels that take long to decode or to generate.

A cached file is a NumPy array of bytes followed by its sha256. It appears only when it is complete, is
checked when it is opened, and is memory-mapped, so that a data set may be larger than the memory.
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
    """Decode and resize image files in parallel, to (N, 3, size, size) in uint8."""
    if crop not in CROPS:
        raise DataError(f"there is no crop {crop!r}. Choose one of {', '.join(CROPS)}.")
    if size < 1:
        raise DataError(f"images cannot be resized to {size} pixels. Give a size of at least 1.")
    about = "" if cache is None else f"{VERSION} {size} {crop}\n{_facts(paths)}"
    blocks = partial(_decode_blocks, paths, size, crop)
    return cached_pixels(blocks, (len(paths), 3, size, size), cache=cache, name=name, about=about)


def cached_pixels(
    blocks: Callable[[], Iterator[Bytes]],
    shape: Shape,
    *,
    cache: Path | None,
    name: str,
    about: str,
) -> Tensor:
    """Return all blocks as one uint8 tensor; with a `cache` folder they are computed only once.

    `about` names everything that the pixels depend on. A damaged file is written again, and a folder that
    cannot be written is not used; both give a warning.
    """
    if cache is None:
        return _gather(blocks(), shape)
    path = cache / f"{name}-{hashlib.sha256(about.encode()).hexdigest()[:16]}.npy"
    if (stored := _open_cached(path, shape)) is not None:
        return stored
    if path.exists():
        warnings.warn(f"{path} is damaged; its images are computed again.", stacklevel=2)
    try:
        _write(path, blocks(), shape)
    except OSError as error:
        warnings.warn(f"cannot keep {path}: {error.strerror}.", stacklevel=2)
        return _gather(blocks(), shape)
    rewritten = _open_cached(path, shape)
    return _gather(blocks(), shape) if rewritten is None else rewritten


def _gather(blocks: Iterator[Bytes], shape: Shape) -> Tensor:
    whole = np.empty(shape, np.uint8)
    start = 0
    for block in blocks:
        whole[start : start + len(block)] = block
        start += len(block)
    return torch.from_numpy(whole)


def _open_cached(path: Path, shape: Shape) -> Tensor | None:
    """Return the array in a cached file, or None if it is missing or damaged."""
    try:
        # Mapped copy-on-write: changes of the tensor do not change the file.
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
    """Write a temporary file, sync it, and rename it."""
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
    """Return name, size and modification time of every file, to notice changes."""
    lines = []
    for path in paths:
        try:
            facts = path.stat()
        except OSError as error:
            raise unreadable(path, error) from error
        lines.append(f"{path.parent.name}/{path.name} {facts.st_size} {facts.st_mtime_ns}")
    return "\n".join(lines)


def _decode_blocks(paths: Sequence[Path], size: int, crop: Crop) -> Iterator[Bytes]:
    def block(start: int) -> Bytes:
        return np.stack([read(path, (size, size), crop) for path in paths[start : start + BLOCK]])

    with ThreadPoolExecutor() as pool:
        yield from pool.map(block, range(0, len(paths), BLOCK))
