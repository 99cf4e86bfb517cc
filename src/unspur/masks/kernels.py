"""Masks on a weight as operations with one GPU kernel forward and one backward.

There are two versions with the same kernels. A plain step uses functions of autograd. A compiled step uses
registered operations, which torch's compiler does not look into. A registered operation imports torch's
compiler when it is first called, which takes seconds.
"""

import torch
from torch import Tensor

from . import kernel_code
from .kernel_code import compile_for, fits

__all__ = ["compile_for", "fits", "sample", "thin"]


def sample(
    weight: Tensor, logits: Tensor, step: Tensor, first: int, second: int, on_logit: bool
) -> tuple[Tensor, Tensor]:
    """Compute `masks.LearnedMask` in training mode for a frozen weight, and sums of blocks of its logits.

    `first` and `second` are the keys of the noise stream.
    """
    if torch.compiler.is_compiling():
        return _sample(weight, logits, step, first, second, on_logit)
    return _Sample.apply(weight, logits, step, first, second, on_logit)


def thin(x: Tensor, keep: Tensor, step: Tensor, first: int, second: int, drop: float) -> Tensor:
    """Compute `masks.FixedMask` with `drop` in training mode."""
    if torch.compiler.is_compiling():
        return _thin(x, keep, step, first, second, drop)
    return _Thin.apply(x, keep, step, first, second, drop)


def _remember(ctx, inputs, output):
    """Save the inputs that the backward pass needs to compute the same noise again."""
    *tensors, ctx.first, ctx.second, ctx.how = inputs
    ctx.save_for_backward(*tensors)


class _Sample(torch.autograd.Function):
    """A learned mask times a frozen weight."""

    forward = staticmethod(kernel_code.sample)
    setup_context = staticmethod(_remember)

    @staticmethod
    def backward(ctx, grad, grad_sums):
        weight, logits, step = ctx.saved_tensors
        back = kernel_code.slope(
            grad, grad_sums, weight, logits, step, ctx.first, ctx.second, ctx.how
        )
        return None, back, None, None, None, None


class _Thin(torch.autograd.Function):
    """A weight of which a random share is dropped; linear, so it is also its own gradient."""

    forward = staticmethod(kernel_code.thin)
    setup_context = staticmethod(_remember)

    @staticmethod
    def backward(ctx, grad):
        _, keep, step = ctx.saved_tensors
        back = kernel_code.thin(grad, keep, step, ctx.first, ctx.second, ctx.how)
        return back, None, None, None, None, None


_sample = torch.library.custom_op("unspur::sample", kernel_code.sample, mutates_args=())
_slope = torch.library.custom_op("unspur::slope", kernel_code.slope, mutates_args=())
_thin = torch.library.custom_op("unspur::thin", kernel_code.thin, mutates_args=())


@_sample.register_fake
def _(weight, logits, step, first, second, on_logit):
    return torch.empty_like(weight), kernel_code.new_sums(weight)


@_slope.register_fake
def _(grad, grad_sums, weight, logits, step, first, second, on_logit):
    return torch.empty_like(weight)


@_thin.register_fake
def _(x, keep, step, first, second, drop):
    return torch.empty_like(keep, dtype=x.dtype)


def _sample_backward(ctx, grad, grad_sums):
    gradient = _slope(grad, grad_sums, *ctx.saved_tensors, ctx.first, ctx.second, ctx.how)
    return None, gradient, None, None, None, None


def _thin_backward(ctx, grad):
    _, keep, step = ctx.saved_tensors
    return _thin(grad, keep, step, ctx.first, ctx.second, ctx.how), None, None, None, None, None


_sample.register_autograd(_sample_backward, setup_context=_remember)
_thin.register_autograd(_thin_backward, setup_context=_remember)
