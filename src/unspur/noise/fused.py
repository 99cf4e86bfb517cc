"""Counter-based random numbers in one GPU kernel, instead of about thirty plain tensor operations.

The plain operations in `noise` are the definition; the tests compare every number. Other kernels use
`uniform_at`.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024
_ANY = ["n", "first", "second"]  # no kernel is compiled for single values


@triton.jit
def _mix(x):
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def uniform_at(place, step, first, second):
    """Compute `noise.uniform` at positions `place` of a stream with the keys `first` and `second`."""
    low = step.to(tl.uint32)
    a = _mix(first.to(tl.uint32) + low)
    b = _mix(second.to(tl.uint32) ^ (low * 0x846CA68B))
    bits = _mix(_mix(place.to(tl.uint32) + a) + b)
    return ((bits >> 9).to(tl.float32) + 0.5) * 1.1920928955078125e-07  # 2 ** -23


@triton.jit(do_not_specialize=_ANY)
def _uniform(out, step, n, first, second, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + at, uniform_at(at, tl.load(step), first, second), mask=at < n)


def signed(*words: int) -> tuple[int, ...]:
    """Return 32-bit words as signed numbers with the same bits.

    All of them are of one type. A larger number is an int64, for which Triton compiles another kernel.
    """
    return tuple(word - (1 << 32) if word >> 31 else word for word in words)


def uniform(step: Tensor, shape: tuple[int, ...], first: int, second: int) -> Tensor:
    """Return `noise.uniform` for a step on the GPU and the keys of a stream."""
    out = torch.empty(shape, device=step.device)
    n = out.numel()
    _uniform[(triton.cdiv(n, _BLOCK),)](out, step, n, *signed(first, second), block=_BLOCK)
    return out
