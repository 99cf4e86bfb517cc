"""Counter-based random numbers: pure functions of seed, step, stream and position.

No generator is advanced, and nothing random needs to be checkpointed. Using a weight twice in one step gives
the same number. Eager, compiled and captured code, CPU and GPU all give the same bits. `step` may be a tensor
on the device that the training step increments.

The generator is a keyed 32-bit integer hash of the position (two rounds of a multiply-xorshift mixer,
with a key added before each round) in plain tensor operations. On a GPU one kernel of `fused` does
all of them, on a CPU NumPy does them in blocks (`blocks`). May import: nothing.
"""

from __future__ import annotations

import importlib.util
import math
from functools import cache
from typing import overload

import torch
from torch import Tensor

from . import blocks

# Each use of a seed has its own stream. Masks use one stream each, from FIRST_WEIGHT on.
PERMUTE, SAMPLE, FLIP, CROP_ROW, CROP_COLUMN, HOLD_OUT, CROP_AREA, CROP_RATIO = range(8)
STYLE, MIX, SPECTRUM = range(8, 11)
FIRST_WEIGHT = 1000

_WORD = 0xFFFFFFFF
_A, _B = 0x7FEB352D, 0x846CA68B  # multipliers of the mixer
_GOLDEN = 0x9E3779B9


@overload
def _mix(x: int) -> int: ...
@overload
def _mix(x: Tensor) -> Tensor: ...
def _mix(x: int | Tensor) -> int | Tensor:
    """Scramble one 32-bit word, given as a Python integer or as an int64 tensor."""
    x = ((x ^ (x >> 16)) * _A) & _WORD
    x = ((x ^ (x >> 15)) * _B) & _WORD
    return x ^ (x >> 16)


def _mix_words(x: Tensor) -> Tensor:
    """Do the same as `_mix` in place on int32 words (products wrap): half the memory traffic of int64."""
    x ^= (x >> 16) & 0xFFFF
    x *= _A
    x ^= (x >> 15) & 0x1FFFF
    x *= _signed(_B)
    x ^= (x >> 16) & 0xFFFF
    return x


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


def _as_int32(key: int | Tensor) -> int | Tensor:
    if isinstance(key, int):
        return _signed(key)
    return torch.where(key > 0x7FFFFFFF, key - (1 << 32), key).to(torch.int32)


def stream_keys(seed: int, stream: int) -> tuple[int, int]:
    """Return two words that depend on the seed and the stream."""
    base = _mix(_mix(seed & _WORD) ^ ((seed >> 32) & _WORD))
    first = _mix((base + stream * _GOLDEN) & _WORD)
    return first, _mix((first ^ _A) & _WORD)


def _keys(seed: int, step: int | Tensor, stream: int) -> tuple[int | Tensor, int | Tensor]:
    """Return two words that depend on everything but the position."""
    first, second = stream_keys(seed, stream)
    if isinstance(step, Tensor) and step.ndim == 0 and step.device.type == "cpu":
        # No device to wait for, and Python numbers are faster than tensors with one element.
        step = step if torch.compiler.is_compiling() else int(step.numpy())
    low = (step if isinstance(step, int) else step.long()) & _WORD
    return _mix((first + low) & _WORD), _mix((second ^ (low * _B)) & _WORD)


def step_keys(seed: int, step: int | Tensor, stream: int) -> tuple[int, int] | None:
    """Return two words that depend on seed, step and stream; None if the step is on another device."""
    first, second = _keys(seed, step, stream)
    return (first, second) if isinstance(first, int) and isinstance(second, int) else None


def bits(
    seed: int,
    step: int | Tensor,
    stream: int,
    shape: tuple[int, ...],
    device: torch.device | str | None = None,
) -> Tensor:
    """Return 32 random bits per position, as int32. A tensor of steps adds leading dimensions."""
    first, second = _keys(seed, step, stream)
    if isinstance(first, int) and isinstance(second, int) and is_plain_cpu(device):
        return blocks.bits(first, second, shape)
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        device, spread = first.device, (*first.shape, *[1] * len(shape))
        first, second = first.reshape(spread), second.reshape(spread)
    place = torch.arange(math.prod(shape), dtype=torch.int32, device=device).reshape(shape)
    x = _mix_words(place + _as_int32(first))
    return _mix_words(x + _as_int32(second))


def uniform(
    seed: int,
    step: int | Tensor,
    stream: int,
    shape: tuple[int, ...],
    device: torch.device | str | None = None,
) -> Tensor:
    """Return uniform numbers strictly inside (0, 1), float32 with 23 random bits."""
    if isinstance(step, Tensor) and is_fused(step) and math.prod(shape) < 2**31:
        from .fused import uniform as fused_uniform

        return fused_uniform(step, shape, *stream_keys(seed, stream))
    keys = _keys(seed, step, stream)
    if isinstance(keys[0], int) and isinstance(keys[1], int) and is_plain_cpu(device):
        return blocks.uniform(keys[0], keys[1], shape)
    x = bits(seed, step, stream, shape, device)
    return (((x >> 9) & 0x7FFFFF).to(torch.float32) + 0.5) * 2.0**-23


def is_plain_cpu(device: torch.device | str | None) -> bool:
    """Return whether NumPy can compute the numbers: on the CPU, outside torch.compile and traces."""
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
        return False
    where = torch.get_default_device() if device is None else torch.device(device)
    return where.type == "cpu"


def is_fused(step: Tensor) -> bool:
    """Return whether one GPU kernel computes the numbers: on a GPU with Triton, outside torch.compile."""
    plain = not step.is_cuda or step.ndim > 0 or torch.compiler.is_compiling()
    return not plain and _has_triton()


@cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def logistic(u: Tensor) -> Tensor:
    """Return Logistic(0, 1) noise from uniform numbers; it equals the difference of two Gumbel variables."""
    return torch.log(u) - torch.log1p(-u)
