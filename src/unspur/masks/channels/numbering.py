"""Which channels belong together: numbers for channels, merged and frozen as a network is followed."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

# In place of a channel's number: nothing that could be removed, and nothing that would mind.
FIXED, FREE = -1, -2


@dataclass
class Ledger:
    """Numbers of channels, a forest of merged ones, and those that must stay, with the reason."""

    parents: list[int] = field(default_factory=list)
    reasons: dict[int, str] = field(default_factory=dict)

    def fresh(self, count: int) -> Tensor:
        """New numbers."""
        first = len(self.parents)
        self.parents += range(first, first + count)
        return torch.arange(first, first + count)

    def root(self, number: int) -> int:
        """The number that stands for all those merged with this one."""
        while self.parents[number] != number:
            self.parents[number] = self.parents[self.parents[number]]
            number = self.parents[number]
        return number

    def roots(self, ids: Tensor) -> Tensor:
        """The same for a tensor of numbers; other entries stay."""
        present, where = torch.unique(ids, return_inverse=True)
        roots = [self.root(i) if i >= 0 else i for i in present.tolist()]
        return torch.tensor(roots, dtype=torch.int64)[where]

    def merge(self, a: Tensor, b: Tensor, why: str) -> Tensor:
        """Channels at the same place are one from now on; beside something fixed, they must stay."""
        shape = torch.broadcast_shapes(a.shape, b.shape)  # type: ignore[no-untyped-call]
        a, b = _shrunk(a.expand(shape), b.expand(shape))
        self.freeze(torch.where(b == FIXED, a, FREE), why)
        self.freeze(torch.where(a == FIXED, b, FREE), why)
        both = (a >= 0) & (b >= 0) & (a != b)
        pairs = torch.unique(a[both] * len(self.parents) + b[both])
        for pair in pairs.tolist():
            self._join(*divmod(pair, len(self.parents)))
        return torch.maximum(a, b)

    def merge_all(self, ids: Tensor, why: str) -> int:
        """All these channels are one from now on; its number, or that of nothing."""
        present = torch.unique(ids)
        numbers = [int(i) for i in present if i >= 0]
        if bool((present == FIXED).any()):
            self.freeze(present, why)
        for other in numbers[1:]:
            self._join(numbers[0], other)
        return numbers[0] if numbers else int(present.max())

    def freeze(self, ids: Tensor, why: str) -> None:
        """These channels must stay."""
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


def _shrunk(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both without the repetitions that expanding made."""
    for dim in range(a.dim()):
        if a.stride(dim) == 0 and b.stride(dim) == 0:
            a, b = a.narrow(dim, 0, 1), b.narrow(dim, 0, 1)
    return a, b


def varying(ids: Tensor) -> list[int]:
    """The dimensions along which numbers differ."""
    small, _ = _shrunk(ids, ids)
    return [
        dim
        for dim in range(small.dim())
        if small.size(dim) > 1 and bool((small != small.narrow(dim, 0, 1)).any())
    ]
