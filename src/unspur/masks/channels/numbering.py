"""Number the channels of a network; record which numbers are the same channel and which are frozen.

The numbers form a union–find forest: channels that must be removed together are merged, and the smallest
number of a merged set (its root) stands for all of them. A frozen channel has a reason why it must stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

# Values that stand for no channel. FIXED: an entry that cannot be removed, such as a pixel of the input.
# FREE: an entry that belongs to no channel and restricts none, such as zero padding or a scalar.
FIXED, FREE = -1, -2


@dataclass
class ChannelNumbers:
    """Numbers of channels, the forest of merged numbers, and the reasons for freezing by root."""

    parents: list[int] = field(default_factory=list)
    reasons: dict[int, str] = field(default_factory=dict)

    def new(self, count: int) -> Tensor:
        """Return `count` numbers that were not used before."""
        first = len(self.parents)
        self.parents += range(first, first + count)
        return torch.arange(first, first + count)

    def root(self, number: int) -> int:
        """Return the number that represents all numbers merged with this one."""
        while self.parents[number] != number:
            self.parents[number] = self.parents[self.parents[number]]
            number = self.parents[number]
        return number

    def roots(self, ids: Tensor) -> Tensor:
        """Return the root of every number in a tensor; FIXED and FREE are returned unchanged."""
        present, where = torch.unique(ids, return_inverse=True)
        roots = [self.root(i) if i >= 0 else i for i in present.tolist()]
        return torch.tensor(roots, dtype=torch.int64)[where]

    def merge(self, a: Tensor, b: Tensor, why: str) -> Tensor:
        """Merge the channels at the same positions of two tensors; freeze those that meet FIXED."""
        shape = torch.broadcast_shapes(a.shape, b.shape)  # type: ignore[no-untyped-call]
        a, b = _without_repeats(a.expand(shape), b.expand(shape))
        self.freeze(torch.where(b == FIXED, a, FREE), why)
        self.freeze(torch.where(a == FIXED, b, FREE), why)
        both = (a >= 0) & (b >= 0) & (a != b)
        pairs = torch.unique(a[both] * len(self.parents) + b[both])
        for pair in pairs.tolist():
            self._join(*divmod(pair, len(self.parents)))
        return torch.maximum(a, b)

    def merge_all(self, ids: Tensor, why: str) -> int:
        """Merge all channels of a tensor into one; return its number, or FIXED or FREE if there is none."""
        present = torch.unique(ids)
        numbers = [int(i) for i in present if i >= 0]
        if bool((present == FIXED).any()):
            self.freeze(present, why)
        for other in numbers[1:]:
            self._join(numbers[0], other)
        return numbers[0] if numbers else int(present.max())

    def freeze(self, ids: Tensor, why: str) -> None:
        """Mark channels as not removable. The first reason is remembered."""
        for number in torch.unique(ids).tolist():
            if number >= 0:
                self.reasons.setdefault(self.root(number), why)

    def _join(self, a: int, b: int) -> None:
        a, b = self.root(a), self.root(b)
        if a == b:
            return
        first, second = min(a, b), max(a, b)
        self.parents[second] = first
        if second in self.reasons:
            self.reasons.setdefault(first, self.reasons[second])


def varying(ids: Tensor) -> list[int]:
    """Return the dimensions along which the numbers differ."""
    small, _ = _without_repeats(ids, ids)
    return [
        dim
        for dim in range(small.dim())
        if small.size(dim) > 1 and bool((small != small.narrow(dim, 0, 1)).any())
    ]


def _without_repeats(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Undo `expand` along the dimensions where both tensors only repeat their values."""
    for dim in range(a.dim()):
        if a.stride(dim) == 0 and b.stride(dim) == 0:
            a, b = a.narrow(dim, 0, 1), b.narrow(dim, 0, 1)
    return a, b
