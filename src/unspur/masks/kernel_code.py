"""The code of the GPU kernels of masks, and how they are launched; `kernels.py` makes operations of them.

The plain operations in `layers.py` are the definition. Here one Triton kernel computes the counter-based
random bits, the noise, the straight-through sample and the product. Nothing between is written to memory, and
the backward pass computes the noise again instead of storing it. `fits` says which weights are supported.

The kernel reads every logit, so it also adds them up, in blocks. A penalty on the sum of all logits then
needs no further pass over them, forward or backward.

The noise of a weight depends on its logical position, not on the memory layout. `inner` and `outer` describe
the layout: `inner` channels lie side by side, `outer` is that times the size of the kernel window.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..noise.fused import signed, uniform_at

_BLOCK = 1024
_PLAIN = ["n", "first", "second", "inner", "outer"]  # no kernel is compiled for single values


@triton.jit
def _uniform(at, step, first, second, inner, outer):
    """Compute `noise.uniform` for the weights at the memory positions `at`."""
    rest = at % outer
    place = at - rest + (rest % inner) * (outer // inner) + rest // inner
    return uniform_at(place, step, first, second)


@triton.jit
def _soft(theta, u, on_logit: tl.constexpr):
    """Compute `masks.concrete`, and the slope of its centre in θ."""
    g = tl.log(u) - tl.log(1.0 - u)  # 1 - u is exact
    if on_logit:
        slope = tl.full(theta.shape, 1.0, tl.float32)
    else:
        theta = tl.sigmoid(theta)
        slope = theta * (1.0 - theta)
    return tl.sigmoid(theta + g), slope


@triton.jit(do_not_specialize=_PLAIN)
def _sample(
    out, sums, weight, logits, step, n, first, second, inner, outer,
    on_logit: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * block + tl.arange(0, block)
    there = at < n
    u = _uniform(at, tl.load(step), first, second, inner, outer)
    theta = tl.load(logits + at, mask=there, other=0.0)
    tl.store(sums + tl.program_id(0), tl.sum(theta))
    soft, _ = _soft(theta, u, on_logit)
    w = tl.load(weight + at, mask=there, other=0.0)
    tl.store(out + at, tl.where(soft > 0.5, w, 0.0), mask=there)


@triton.jit(do_not_specialize=[*_PLAIN, "stride"])
def _slope(
    out, grad, grad_sums, weight, logits, step, stride, n, first, second, inner, outer,
    on_logit: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * block + tl.arange(0, block)
    there = at < n
    u = _uniform(at, tl.load(step), first, second, inner, outer)
    soft, slope = _soft(tl.load(logits + at, mask=there, other=0.0), u, on_logit)
    w = tl.load(weight + at, mask=there, other=0.0)
    g = tl.load(grad + at, mask=there, other=0.0)
    added = tl.load(grad_sums + tl.program_id(0) * stride)
    tl.store(out + at, g * w * (soft * (1.0 - soft)) * slope + added, mask=there)


@triton.jit(do_not_specialize=_PLAIN)
def _thin(out, x, keep, step, n, first, second, inner, outer, drop, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    there = at < n
    u = _uniform(at, tl.load(step), first, second, inner, outer)
    survives = tl.load(keep + at, mask=there, other=0) & (u >= drop)
    value = tl.load(x + at, mask=there, other=0.0)
    tl.store(out + at, tl.where(survives, value / (1.0 - drop), 0.0), mask=there)


def fits(weight: Tensor, other: Tensor) -> bool:
    """Return whether the kernels support a weight and its mask: float32, contiguous or channels-last."""
    known = weight.is_contiguous() or (
        weight.dim() == 4 and weight.is_contiguous(memory_format=torch.channels_last)
    )
    small = weight.numel() < 2**31
    return known and small and weight.dtype == torch.float32 and other.stride() == weight.stride()


def sample(
    weight: Tensor, logits: Tensor, step: Tensor, first: int, second: int, on_logit: bool
) -> tuple[Tensor, Tensor]:
    """Compute `masks.LearnedMask` in training mode for a frozen weight, and sums of blocks of its logits.

    `first` and `second` are the keys of the noise stream.
    """
    out, sums = torch.empty_like(weight), new_sums(weight)
    n, *layout = _sizes(out)
    keys = signed(first, second)
    _sample[_grid(n)](out, sums, weight, logits, step, n, *keys, *layout, on_logit, block=_BLOCK)
    return out, sums


def slope(
    grad: Tensor, grad_sums: Tensor, weight: Tensor, logits: Tensor, step: Tensor, first: int,
    second: int, on_logit: bool,
) -> Tensor:  # fmt: skip
    """Compute the gradient of `sample` in the logits, from those in its results."""
    out = torch.empty_like(weight)
    n, *layout = _sizes(out)
    grad, keys = _match_layout(grad, weight), signed(first, second)
    # The gradient of a sum is one number, which `grad_sums` may repeat without a copy, with a stride of 0.
    first_arguments = (out, grad, grad_sums, weight, logits, step, grad_sums.stride(0))
    _slope[_grid(n)](*first_arguments, n, *keys, *layout, on_logit, block=_BLOCK)
    return out


def new_sums(weight: Tensor) -> Tensor:
    """Return memory for the sums of all blocks of a weight's logits."""
    return weight.new_empty(_grid(weight.numel()))


def thin(x: Tensor, keep: Tensor, step: Tensor, first: int, second: int, drop: float) -> Tensor:
    """Compute `masks.FixedMask` with `drop` in training mode; linear, so it is also its own gradient."""
    x = _match_layout(x, keep)
    out = torch.empty_like(x)
    n, *layout = _sizes(out)
    keys = signed(first, second)
    _thin[_grid(n)](out, x, keep, step, n, *keys, *layout, drop, block=_BLOCK)
    return out


def compile_for(use: str) -> None:
    """Compile the kernels of learned masks with noise on `use`, or that of `thin` if it is "drop".

    Nothing runs on the GPU, so that another thread may record a CUDA graph at the same time.
    """
    x, counts, keys, layout = torch.float32, (torch.int64, 1), (0, 0), (1, 1)
    calls: list[tuple[Any, tuple[Any, ...]]]
    if use == "drop":
        calls = [(_thin, (x, x, torch.bool, *counts, *keys, *layout, 0.5))]
    else:
        step, *count = counts
        further = (*count, *keys, *layout, use == "logit")
        calls = [(_sample, (x, x, x, x, step, *further)), (_slope, (*[x] * 5, step, 0, *further))]
    for kernel, arguments in calls:  # data types stand for tensors
        found = kernel.warmup(*arguments, grid=(1,), block=_BLOCK)
        # The code that launches the kernel is cached on disk.
        triton.runtime.driver.active.launcher_cls(found.src, found.metadata)


def _grid(n: int) -> tuple[int]:
    return (triton.cdiv(n, _BLOCK),)


def _sizes(tensor: Tensor) -> tuple[int, int, int]:
    """Return the number of weights, and `inner` and `outer` of their layout."""
    if tensor.is_contiguous():
        return tensor.numel(), 1, 1
    channels, height, width = tensor.shape[1:]
    return tensor.numel(), channels, channels * height * width


def _match_layout(tensor: Tensor, like: Tensor) -> Tensor:
    if like.is_contiguous():
        return tensor.contiguous()
    return tensor.contiguous(memory_format=torch.channels_last)
