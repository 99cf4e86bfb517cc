"""Exchange tensors between processes: rows of a batch, sums, gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .team import Rows, Team

BUCKET = 25 * 2**20  # bytes of gradients in one all-reduce


def gather_rows(own: Tensor, rows: Rows) -> Tensor:
    """Return the rows of all processes in order, without a gradient."""
    longest = max(rows.counts)
    padded = own.new_zeros(longest, *own.shape[1:])
    padded[: len(own)] = own
    parts = [torch.empty_like(padded) for _ in rows.counts]
    dist.all_gather(parts, padded)
    return torch.cat([part[:count] for part, count in zip(parts, rows.counts, strict=True)])


class GatheredRows(torch.autograd.Function):
    """The rows of all processes, in order, with a gradient.

    Every process computes the same loss from the gathered rows, so each one has the complete gradient and
    sends nothing back. It takes the gradient of its own rows, multiplied by the number of processes because
    the gradients of the weights are averaged later.
    """

    @staticmethod
    def forward(ctx: Any, own: Tensor, rows: Rows) -> Tensor:
        ctx.rows = rows
        return gather_rows(own.detach(), rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        rows: Rows = ctx.rows
        return gradients[0][rows.slice] * len(rows.counts), None


class ProcessSum(torch.autograd.Function):
    """A sum over all processes. Each process uses it, so its gradient is also summed over all processes."""

    @staticmethod
    def forward(ctx: Any, own: Tensor) -> Tensor:
        total = own.detach().clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].contiguous().clone()
        dist.all_reduce(total)
        return total


@torch.no_grad()
def average_gradients(parameters: Sequence[nn.Parameter], team: Team) -> None:
    """Replace every gradient by its mean over the processes, in buckets of some megabytes."""
    for bucket in _buckets([p.grad for p in parameters if p.grad is not None]):
        flat = torch.cat([gradient.reshape(-1) for gradient in bucket])
        dist.all_reduce(flat)
        flat /= team.size
        parts = torch.split(flat, [gradient.numel() for gradient in bucket])
        for gradient, part in zip(bucket, parts, strict=True):
            gradient.copy_(part.view(gradient.shape))


def _buckets(gradients: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Yield the gradients in order, in lists of one dtype and of about BUCKET bytes."""
    bucket: list[Tensor] = []
    for gradient in gradients:
        full = sum(g.numel() * g.element_size() for g in bucket) >= BUCKET
        if bucket and (full or bucket[0].dtype != gradient.dtype):
            yield bucket
            bucket = []
        bucket.append(gradient)
    if bucket:
        yield bucket
