"""Relative difficulty of samples, used by LfF and DisEnt."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Ledger(nn.Module):
    """The moving average of each training sample's loss for one network."""

    average: Tensor
    seen: Tensor
    targets: Tensor

    def __init__(self, targets: Tensor, *, memory: float):
        super().__init__()
        self.memory, self.classes = memory, int(targets.max()) + 1
        self.register_buffer("targets", targets.clone())
        self.register_buffer("average", torch.zeros(len(targets)))
        self.register_buffer("seen", torch.zeros(len(targets)))

    @torch.no_grad()
    def enter(self, index: Tensor, losses: Tensor) -> Tensor:
        """Record the losses of some samples; return their averages divided by the highest of their class.

        e ← αe + (1 - α·seen)·ℓ: a first visit stores the loss itself.
        """
        seen, before = self.seen[index], self.average[index]
        now = self.memory * before + (1 - self.memory * seen) * losses.to(before.dtype)
        self.average.index_copy_(0, index, now)
        self.seen.index_fill_(0, index, 1.0)
        highest = self._highest()[self.targets[index]]
        # If all losses of a class are exactly zero, each one equals the highest.
        return torch.where(highest > 0, self.average[index] / highest, 1.0)

    def _highest(self) -> Tensor:
        """Return the highest average of every class, over the whole table."""
        classes = torch.arange(self.classes, device=self.targets.device)
        is_class = classes[:, None] == self.targets
        return torch.where(is_class, self.average, 0.0).amax(1)


class Difficulty(nn.Module):
    """Relative difficulty W = ê_b / (ê_b + ê_d + 1e-8): near 1 if only the biased network fails."""

    def __init__(self, targets: Tensor, *, memory: float = 0.7):
        super().__init__()
        self.biased = Ledger(targets, memory=memory)
        self.debiased = Ledger(targets, memory=memory)

    def weigh(self, index: Tensor, biased: Tensor, debiased: Tensor) -> Tensor:
        """Record both losses of a batch, in place; return the samples' weights, without gradient."""
        hard = self.biased.enter(index, biased.detach())
        other = self.debiased.enter(index, debiased.detach())
        return hard / (hard + other + 1e-8)
