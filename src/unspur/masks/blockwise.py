"""Learned masks on the CPU, in blocks that stay in the cache.

The plain operations in `layers.py` are the definition, and all bits are theirs. With large tensors each of
these operations would read and write main memory. Here a block of weights goes through all of them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import noise


def fits(weight: Tensor, logits: Tensor) -> bool:
    """Return whether a mask can be computed in blocks: float32 on a CPU, dense in memory, not compiled.

    torch computes the last numbers of a tensor one by one, with other bits. So there must be none.
    """
    return (
        noise.is_plain_cpu(weight.device)
        and weight.dtype == logits.dtype == torch.float32
        and weight.dim() > 0
        and 0 < weight.numel() < 2**32
        and weight.numel() % noise.blocks.ALIGNED == 0
        and weight.stride() == logits.stride()
        and (weight.is_contiguous() or _is_channels_last(weight))
    )


def sample(weight: Tensor, logits: Tensor, keys: tuple[int, int], on_logit: bool) -> Tensor:
    """Compute `masks.LearnedMask` in training mode for a frozen weight; `keys`: see `noise.step_keys`."""
    found: Tensor = _Sample.apply(weight, logits, keys, on_logit)  # type: ignore[no-untyped-call]
    return found


class _Sample(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, logits: Tensor, keys: tuple[int, int], on_logit: bool
    ) -> Tensor:
        soft, out = torch.empty_like(weight), torch.empty_like(weight)
        lines = [_line(t) for t in (weight, logits, soft, out)]
        last = _is_channels_last(weight)
        for start, u, spare in noise.blocks.uniform_along(*keys, weight.shape, channels_last=last):
            w, theta, s, o = (line[start : start + len(u)] for line in lines)
            mask = _soft(theta, torch.from_numpy(u), torch.from_numpy(spare), s, on_logit)
            torch.mul(w, torch.gt(s, 0.5, out=mask), out=o)
        ctx.save_for_backward(weight, logits, soft)
        ctx.on_logit = on_logit
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weight, logits, soft = ctx.saved_tensors
        out = torch.empty_like(weight)
        grad = torch.empty_like(weight).copy_(grad) if grad.stride() != weight.stride() else grad
        lines = [
            torch.split(_line(t), noise.blocks.BLOCK) for t in (weight, logits, soft, grad, out)
        ]
        for w, theta, s, g, o in zip(*lines, strict=True):
            torch.mul(g, w, out=o)
            torch.ops.aten.sigmoid_backward(o, s, grad_input=o)
            if not ctx.on_logit:
                torch.ops.aten.sigmoid_backward(o, torch.sigmoid(theta), grad_input=o)
        return None, out, None, None


def _soft(theta: Tensor, u: Tensor, spare: Tensor, out: Tensor, on_logit: bool) -> Tensor:
    """Compute `masks.concrete` with the noise of `u`. Overwrites `u` and `spare`, and returns `spare`."""
    torch.log(u, out=spare)
    spare.sub_(u.neg_().log1p_())
    spare.add_(theta if on_logit else torch.sigmoid(theta, out=u))
    torch.sigmoid(spare, out=out)
    return spare


def _is_channels_last(tensor: Tensor) -> bool:
    channels_last = tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
    return channels_last and not tensor.is_contiguous()


def _line(tensor: Tensor) -> Tensor:
    """Return the numbers of a tensor in the order of memory."""
    tensor = tensor.detach()
    return (tensor.permute(0, 2, 3, 1) if _is_channels_last(tensor) else tensor).reshape(-1)
