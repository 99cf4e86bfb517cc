"""GPU kernels that choose the partners for mixing; `mixing` defines the same in plain torch operations.

Each Triton program compares one image with all others, so a batch of n images takes n² comparisons. This is
fast enough for training batches.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..noise.fused import signed, uniform_at

_BLOCK = 256
_ANY = ["n", "first", "second", "probability"]  # do not compile another kernel for other values


@triton.jit(do_not_specialize=_ANY)
def _partners(other, amount, step, n, first, second, probability, block: tl.constexpr):
    """Store image i at the rank of its random number, and a random weight with the given probability."""
    i, now = tl.program_id(0), tl.load(step)
    own = uniform_at(i, now, first, second)
    rank = 0
    for start in range(0, n, block):
        j = start + tl.arange(0, block)
        u = uniform_at(j, now, first, second)
        before = (u < own) | ((u == own) & (j < i))  # the order of a stable sort
        rank += tl.sum((before & (j < n)).to(tl.int32))
    tl.store(other + rank, i.to(tl.int64))
    mixes = uniform_at(n + i, now, first, second) < probability
    tl.store(amount + i, tl.where(mixes, uniform_at(2 * n + i, now, first, second), 0.0))


@triton.jit(do_not_specialize=_ANY)
def _class_partners(
    index, amount, y, conflict, step, n, first, second, probability, block: tl.constexpr
):
    """Find the image of the same class as image i with the largest random number, doubled for suspects."""
    i, now = tl.program_id(0), tl.load(step)
    label = tl.load(y + i)
    best, best_at = 0.0, 0
    for start in range(0, n, block):
        j = start + tl.arange(0, block)
        there = j < n
        eligible = there & (tl.load(y + j, mask=there, other=-1) == label) & (j != i)
        weight = 1.0 + tl.load(conflict + j, mask=there, other=0).to(tl.float32)
        u = tl.where(eligible, uniform_at(i * n + j, now, first, second) * weight, 0.0)
        largest = tl.max(u)
        at = start + tl.argmax(u, axis=0)
        best_at = tl.where(largest > best, at, best_at)
        best = tl.maximum(best, largest)
    mixes = (best > 0) & (uniform_at(n * n + i, now, first, second) < probability)
    half = uniform_at(n * n + n + i, now, first, second) / 2
    tl.store(index + i, best_at)
    tl.store(amount + i, tl.where(mixes, half, 0.0))


def partners(
    n: int, probability: float, step: Tensor, first: int, second: int
) -> tuple[Tensor, Tensor]:
    """Compute `mixing._partners`; `first` and `second` are the keys of its random stream."""
    other = torch.empty(n, dtype=torch.int64, device=step.device)
    amount = torch.empty(n, device=step.device)
    keys = signed(first, second)
    _partners[(n,)](other, amount, step, n, *keys, probability, block=_BLOCK)
    return other, amount[:, None, None, None]


def class_partners(
    y: Tensor, conflict: Tensor, probability: float, step: Tensor, first: int, second: int
) -> tuple[Tensor, Tensor]:
    """Compute `mixing._class_partners`; `first` and `second` are the keys of its random stream."""
    n = len(y)
    index, amount = torch.empty_like(y), torch.empty(n, device=y.device)
    keys = signed(first, second)
    _class_partners[(n,)](index, amount, y, conflict, step, n, *keys, probability, block=_BLOCK)
    return index, amount
