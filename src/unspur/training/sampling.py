"""Choose the samples of each batch as a function of (odds, seed, step), so that runs can be resumed."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from .. import noise


class Order(Protocol):
    """The rule that chooses the samples of each batch."""

    def draw(self, first: int, count: int) -> Tensor:
        """Return indices (count, batch) of the batches `first` to `first + count - 1`."""


class Passes:
    """Pass through the samples repeatedly, each time in a new random order."""

    def __init__(self, among: Tensor, *, batch: int, seed: int):
        self.among, self.batch, self.seed = among, batch, seed
        self._permutations: dict[int, Tensor] = {}

    def draw(self, first: int, count: int) -> Tensor:
        start, stop = first * self.batch, (first + count) * self.batch
        n = len(self.among)
        epochs = range(start // n, (stop - 1) // n + 1)
        known = self._permutations
        self._permutations = {e: known[e] if e in known else self._permute(e) for e in epochs}
        line = torch.cat([self._permutations[e] for e in epochs])
        offset = start - epochs[0] * n
        return line[offset : offset + count * self.batch].reshape(count, self.batch)

    def _permute(self, epoch: int) -> Tensor:
        keys = noise.bits(self.seed, epoch, noise.PERMUTE, (len(self.among),), self.among.device)
        return self.among[torch.sort(keys, stable=True).indices]


class Weighted:
    """Draw with replacement, each sample with probability proportional to its odds."""

    def __init__(self, odds: Tensor, *, batch: int, seed: int):
        # On the CPU: a float64 cumulative sum is not reproducible on a GPU.
        line = odds.detach().cpu().double().cumsum(0)
        self.line = (line / line[-1]).to(odds.device)
        self.batch, self.seed = batch, seed

    def draw(self, first: int, count: int) -> Tensor:
        steps = torch.arange(first, first + count, device=self.line.device)
        words = noise.bits(self.seed, steps, noise.SAMPLE, (self.batch,))
        u = ((words.double() + 2**31) + 0.5) / 2**32
        return torch.searchsorted(self.line, u, right=True).clamp(max=len(self.line) - 1)


def derived_odds(
    conflict: Tensor,
    targets: Tensor,
    *,
    share: float = 1 / 3,
    cap: float = 100.0,
    grades: Tensor | None = None,
) -> Tensor:
    """Return sampling odds from the suspects: in every class, about `share` of the draws are suspects.

    No suspect is drawn more than `cap` times as often as another sample of its class, and each class
    keeps its share of the draws. With `grades`, suspects of a class are drawn in proportion to their grades,
    and the cap limits their mean.
    """
    odds = torch.ones(len(targets), dtype=torch.float64)
    for c in np.unique(targets.cpu().numpy()):
        members = (targets == int(c)).cpu()
        suspects = members & conflict.cpu()
        n, k = int(members.sum()), int(suspects.sum())
        if 0 < k < n:
            odds[suspects] = min(max(share / (1 - share) * (n - k) / k, 1.0), cap)
            if grades is not None:
                odds[suspects] *= grades[suspects] / grades[suspects].mean()
        odds[members] *= n / odds[members].sum()
    return odds.to(targets.device)


def fixed_odds(conflict: Tensor, *, up: float) -> Tensor:
    """Return the paper's sampling odds: `up` for a suspect, 1 for any other sample."""
    return torch.where(conflict, up, 1.0).double()
