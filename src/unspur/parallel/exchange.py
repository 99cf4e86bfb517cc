"""What processes tell each other: a result of the first, a decision of all, rows of tensors, gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..errors import UnspurError
from .team import Rows, Team, current

T = TypeVar("T")
BUCKET = 25 * 2**20  # bytes of gradients that are reduced at once


def from_first(work: Callable[[], T]) -> T:
    """Do some work in the first process and return its result in all; what it raises is raised in all."""
    team = current()
    if team is None:
        return work()
    outcome = attempt(work) if team.rank == 0 else (None, None)
    value, error = broadcast(sendable(outcome), team.control)
    if team.rank == 0:
        value, error = outcome
    if error is not None:
        raise error
    return value  # type: ignore[no-any-return]


def attempt(work: Callable[[], T]) -> tuple[T | None, Exception | None]:
    """Return the result of some work, and what it raised."""
    try:
        return work(), None
    except Exception as error:
        return None, error


def sendable(outcome: tuple[Any, Exception | None]) -> tuple[Any, Exception | None]:
    """Replace an error that is not ours, and perhaps cannot be sent, by one with its text."""
    value, error = outcome
    if error is None or isinstance(error, UnspurError):
        return outcome
    return value, RuntimeError(f"{type(error).__name__}: {error}")


def broadcast(value: T, group: dist.ProcessGroup) -> T:
    """Return the value of a group's first process in all of them."""
    box: list[Any] = [value]
    dist.broadcast_object_list(box, src=dist.get_global_rank(group, 0), group=group)
    return box[0]  # type: ignore[no-any-return]


def first_says(value: T) -> T:
    """Return the first process's value in all processes."""
    team = current()
    return value if team is None else broadcast(value, team.control)


def any_of(flag: bool) -> bool:
    """Return whether a flag is set in any process."""
    team = current()
    return flag if team is None else bool(largest([float(flag)], team)[0])


def largest(numbers: Sequence[float], team: Team) -> list[float]:
    """Return the largest of each number over all processes."""
    found = torch.tensor(numbers, dtype=torch.float64)
    dist.all_reduce(found, op=dist.ReduceOp.MAX, group=team.control)
    return found.tolist()


def gather_objects(value: T, team: Team) -> list[T]:
    """Return the value of every process, by rank."""
    found: list[Any] = [None] * team.size
    dist.all_gather_object(found, value, group=team.control)
    return found


def gather_rows(own: Tensor, rows: Rows) -> Tensor:
    """Return the rows of all processes in order; no gradient."""
    longest = max(rows.counts)
    padded = own.new_zeros(longest, *own.shape[1:])
    padded[: len(own)] = own
    parts = [torch.empty_like(padded) for _ in rows.counts]
    dist.all_gather(parts, padded)
    return torch.cat([part[:count] for part, count in zip(parts, rows.counts, strict=True)])


class GatheredRows(torch.autograd.Function):
    """Rows of all processes, in order, with their gradient.

    Every process computes the same loss of the gathered rows, so each has the whole gradient of it and sends
    nothing back: it takes its own rows, times the number of processes, as gradients of weights are averaged.
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
    """A sum over all processes that each of them uses; so its gradient is a sum over all of them too."""

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
    """Replace every gradient by its mean over the processes, some megabytes at a time."""
    for bucket in _buckets([p.grad for p in parameters if p.grad is not None]):
        flat = torch.cat([gradient.reshape(-1) for gradient in bucket])
        dist.all_reduce(flat)
        flat /= team.size
        parts = torch.split(flat, [gradient.numel() for gradient in bucket])
        for gradient, part in zip(bucket, parts, strict=True):
            gradient.copy_(part.view(gradient.shape))


def _buckets(gradients: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Yield gradients in order, in lists of one type and of about BUCKET bytes."""
    bucket: list[Tensor] = []
    for gradient in gradients:
        full = sum(g.numel() * g.element_size() for g in bucket) >= BUCKET
        if bucket and (full or bucket[0].dtype != gradient.dtype):
            yield bucket
            bucket = []
        bucket.append(gradient)
    if bucket:
        yield bucket
