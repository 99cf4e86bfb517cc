"""Synchronise the layers whose result depends on the whole batch: batch norm, and the noise of dropout.

A TorchFunctionMode intercepts the functions of torch.nn.functional that layers call. So modules of users and
of timm are covered too, and no module has to be replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.nn.modules._functions import SyncBatchNorm
from torch.overrides import TorchFunctionMode

from .exchange import ProcessSum
from .team import Rows


class SynchronisedLayers(TorchFunctionMode):
    """Computes batch norm in training mode and dropout as for the whole batch."""

    def __init__(self, rows: Rows):
        super().__init__()
        self.rows = rows

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.batch_norm:
            return batch_norm(*args, **kwargs)
        if func is F.dropout:
            return dropout(self.rows, *args, **kwargs)
        return func(*args, **kwargs)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise by the statistics of all processes in training; otherwise do what torch does."""
    if not training:
        return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    statistics = running_mean, running_var
    if input.is_cuda:
        group, size = dist.group.WORLD, dist.get_world_size()
        apply: Any = SyncBatchNorm.apply
        found: Tensor = apply(input, weight, bias, *statistics, eps, momentum, group, size)
        return found
    # SyncBatchNorm of torch has no implementation for CPUs.
    return _on_cpu(input, weight, bias, statistics, momentum, eps)


def _on_cpu(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    statistics: tuple[Tensor | None, Tensor | None],
    momentum: float,
    eps: float,
) -> Tensor:
    """Compute synchronised batch norm from differentiable sums, in two passes for numerical accuracy."""
    x = input if input.dtype == torch.float64 else input.float()
    over = [0, *range(2, x.ndim)]
    shape = [1, -1, *[1] * (x.ndim - 2)]
    count = x.new_tensor([x.numel() // x.shape[1]])
    sums = _sum(torch.cat((x.sum(over), count)))
    total, mean = sums[-1].detach(), sums[:-1] / sums[-1].detach()
    centred = x - mean.view(shape)
    variance = _sum(centred.square().sum(over)) / total
    _update(statistics, mean.detach(), (variance * total / (total - 1)).detach(), momentum)
    normal = centred * torch.rsqrt(variance + eps).view(shape)
    normal = normal if weight is None else normal * weight.view(shape)
    normal = normal if bias is None else normal + bias.view(shape)
    return normal.to(input.dtype)


def _sum(own: Tensor) -> Tensor:
    total: Tensor = ProcessSum.apply(own)  # type: ignore[no-untyped-call]
    return total


def _update(
    statistics: tuple[Tensor | None, Tensor | None], mean: Tensor, variance: Tensor, momentum: float
) -> None:
    """Move the running statistics towards those of a batch, in place."""
    for running, now in zip(statistics, (mean, variance), strict=True):
        if running is not None:
            running.mul_(1 - momentum).add_(momentum * now.to(running.dtype))


def dropout(
    rows: Rows, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Apply dropout as one process would to the whole batch, if the rows of the input are samples.

    Every process draws random numbers for all rows, so the noise does not depend on the number of processes.
    """
    if not training or not 0 < p < 1 or len(input) != len(rows):
        return F.dropout(input, p, training, inplace)
    whole = input.detach()[:1].expand(rows.total, *input.shape[1:])
    keep = torch.empty_like(whole, memory_format=_layout(input)).bernoulli_(1 - p)
    return input * (keep[rows.slice] / (1 - p))


def _layout(x: Tensor) -> torch.memory_format:
    channels_last = x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if channels_last else torch.contiguous_format
