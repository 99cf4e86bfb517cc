"""Compute the random numbers of one key on the CPU with NumPy, in blocks that stay in the cache.

The mixer makes about twenty passes over its words. With large tensors each pass would read and write main
memory, and with small ones the call of a torch operation takes longer than its work. The bits are those of
the tensor operations in `noise`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Words = NDArray[np.uint32]
Numbers = NDArray[np.float32]
BLOCK = 1 << 16  # words in a block: 256 KiB, twice
ALIGNED = 64  # a multiple of what one CPU instruction handles
_A, _B = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)  # the multipliers of `noise`


def bits(first: int, second: int, shape: tuple[int, ...]) -> Tensor:
    """Return 32 random bits per position, as int32."""
    return _fill(np.empty(shape, np.int32), lambda words: words.view(np.int32), first, second)


def uniform(first: int, second: int, shape: tuple[int, ...]) -> Tensor:
    """Return uniform numbers strictly inside (0, 1), float32 with 23 random bits."""
    return _fill(np.empty(shape, np.float32), _to_uniform, first, second)


def uniform_along(
    first: int, second: int, shape: tuple[int, ...], *, channels_last: bool
) -> Iterator[tuple[int, Numbers, Numbers]]:
    """Yield the numbers of `uniform` in blocks, in the order of memory.

    Each block comes with its first position and with spare space of its size. It has whole rows of the first
    dimension, and a multiple of `ALIGNED` numbers if the shape has. The next block overwrites both.
    """
    places = _places(shape, channels_last)
    words, spare = np.empty_like(places), np.empty_like(places)
    for start in range(0, math.prod(shape), len(places)):
        count = min(len(places), math.prod(shape) - start)
        found, kept = words[:count], spare[:count]
        np.add(places[:count], np.uint32((first + start) & 0xFFFFFFFF), out=found)
        _mix(found, kept)
        found += np.uint32(second)
        _mix(found, kept)
        yield start, _to_uniform(found), kept.view(np.float32)


def _places(shape: tuple[int, ...], channels_last: bool) -> Words:
    """Return the logical positions of the first block, in the order of memory."""
    row = np.arange(math.prod(shape[1:]), dtype=np.uint32)
    unit = ALIGNED // math.gcd(row.size, ALIGNED)  # rows
    count = min(shape[0], max(unit, BLOCK // row.size // unit * unit))
    if channels_last:
        row = row.reshape(shape[1], -1).T.reshape(-1)
    starts = np.arange(count, dtype=np.uint32) * np.uint32(row.size)
    return (starts[:, None] + row).reshape(-1)


def _fill(
    out: NDArray[np.generic], convert: Callable[[Words], NDArray[np.generic]], *keys: int
) -> Tensor:
    """Fill an array with converted words, block by block, and return it as a tensor."""
    flat = out.reshape(-1)
    for start, words in _blocks(flat.size, *map(np.uint32, keys)):
        flat[start : start + len(words)] = convert(words)
    return torch.from_numpy(out)


def _blocks(count: int, first: np.uint32, second: np.uint32) -> Iterator[tuple[int, Words]]:
    """Yield the words of the positions 0 to `count` - 1 in blocks, each with its first position."""
    spare = np.empty(min(count, BLOCK), np.uint32)
    for start in range(0, count, BLOCK):
        words = np.arange(start, min(start + BLOCK, count), dtype=np.uint32)
        for key in (first, second):
            words += key
            _mix(words, spare[: len(words)])
        yield start, words


def _mix(x: Words, spare: Words) -> None:
    """Scramble words in place (products wrap)."""
    for shift, factor in ((16, _A), (15, _B)):
        np.right_shift(x, shift, out=spare)
        x ^= spare
        x *= factor
    np.right_shift(x, 16, out=spare)
    x ^= spare


def _to_uniform(words: Words) -> Numbers:
    """Turn 23 bits of every word into a number inside (0, 1). Changes the words."""
    np.right_shift(words, 9, out=words)
    u = words.view(np.int32).astype(np.float32)
    u += np.float32(0.5)
    u *= np.float32(2.0**-23)
    return u
