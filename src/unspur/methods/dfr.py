"""DFR: refit the last layer on balanced groups, with frozen features (Kirichenko et al., ICLR 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .. import noise
from ..training import losses
from .entry import MethodEntry

CHECK_EVERY = 10  # steps between two tests for convergence


@dataclass(frozen=True)
class Head:
    """A linear layer, or several of them stacked along the first dimension."""

    weight: Tensor
    bias: Tensor

    def __call__(self, features: Tensor) -> Tensor:
        return features @ self.weight.mT + self.bias[..., None, :]

    def after_scaling(self, mean: Tensor, sd: Tensor) -> Head:
        """Return the equivalent layer for features before the scaling (x - mean) / sd."""
        weight = self.weight / sd
        return Head(weight, self.bias - weight @ mean)


def refit(
    features: Tensor,
    targets: Tensor,
    conflict: Tensor,
    *,
    classes: int,
    strengths: Sequence[float],
    subsets: int,
    seed: int,
    device: torch.device | None = None,
) -> tuple[Head, dict[str, float]]:
    """Fit a new head: L1 logistic regressions on balanced subsets of standardised features, averaged.

    A group is the suspects of a class, or its other samples. The strength of the data term is chosen by the
    mean accuracy over groups on one half of the samples, after fits on the other half.
    """
    groups = targets * 2 + conflict.long()
    mean, sd = features.double().mean(0), features.double().std(0).clamp(min=1e-6)
    x = (features.double() - mean) / sd
    first = noise.uniform(seed, 0, noise.HOLD_OUT, (len(x),)) < 0.5
    trial = balanced_subset(groups, first, seed=seed, draw=0).expand(len(strengths), -1)
    each = l1_logistic(x, targets, trial, classes=classes, strength=strengths, device=device)
    right = each(x[~first]).argmax(2) == targets[~first]
    accuracies = [mean_by_group(row, groups[~first]) for row in right]
    best = max(range(len(strengths)), key=accuracies.__getitem__)
    all_samples = torch.ones_like(first)
    draws = torch.stack(
        [
            balanced_subset(groups, all_samples, seed=seed, draw=draw)
            for draw in range(1, subsets + 1)
        ]
    )
    best_strengths = [strengths[best]] * subsets
    heads = l1_logistic(x, targets, draws, classes=classes, strength=best_strengths, device=device)
    head = Head(heads.weight.mean(0), heads.bias.mean(0)).after_scaling(mean, sd)
    facts = {
        "strength": strengths[best],
        "chosen_at": accuracies[best],
        "subset": float(draws.shape[1]),
    }
    return head, facts


def balanced_subset(groups: Tensor, among: Tensor, *, seed: int, draw: int) -> Tensor:
    """Return a random subset of the samples in `among`, with equally many of each group."""
    keys = noise.uniform(seed, draw, noise.PERMUTE, (len(groups),))
    order = torch.sort(keys).indices
    order = order[among[order]]
    members = [order[groups[order] == g] for g in torch.unique(groups[order])]
    fewest = min(len(each) for each in members)
    return torch.cat([each[:fewest] for each in members])


def mean_by_group(right: Tensor, groups: Tensor) -> float:
    """Return the mean of the accuracies of all groups."""
    shares = [right[groups == g].double().mean() for g in torch.unique(groups)]
    return float(torch.stack(shares).mean())


def l1_logistic(
    x: Tensor,
    y: Tensor,
    subsets: Tensor,
    *,
    classes: int,
    strength: Sequence[float],
    steps: int = 2000,
    tolerance: float = 1e-7,
    device: torch.device | None = None,
) -> Head:
    """Minimise strength · Σ cross entropy + |W|₁ by accelerated proximal gradient steps.

    The intercept is not penalised. Each row of `subsets` (indices of samples), with the entry of `strength`
    at the same position, is one problem. All problems are solved at once, on the device; the layers are
    stacked along the first dimension.
    """
    x = torch.cat((x.double(), torch.ones(len(x), 1, dtype=torch.float64)), dim=1).to(device)[
        subsets
    ]
    truth = torch.nn.functional.one_hot(y.to(device)[subsets], classes).double().mT
    data_weight = torch.tensor(strength, dtype=torch.float64, device=device)[:, None, None]
    # The Hessian of the softmax is at most 1/2, so a step of this size never increases the objective.
    size = 2 / (data_weight * torch.linalg.matrix_norm(x, ord=2, keepdim=True) ** 2)
    now = ahead = x.new_zeros(len(x), classes, x.shape[2])
    pace = torch.ones_like(size)
    for step in range(steps):
        error = torch.softmax(ahead @ x.mT, dim=1) - truth
        new = shrink(ahead - size * data_weight * (error @ x), size)
        moved = new - now
        # Restart the momentum where it points uphill.
        uphill = (moved * (ahead - new)).sum((1, 2), keepdim=True) > 0
        pace = torch.where(uphill, 1.0, pace)
        next_pace = (1 + (1 + 4 * pace**2).sqrt()) / 2
        ahead = new + (pace - 1) / next_pace * moved
        now, pace = new, next_pace
        if step % CHECK_EVERY == 0 and float(moved.abs().max()) < tolerance:
            break
    now = now.cpu()
    return Head(now[:, :, :-1], now[:, :, -1])


def shrink(weights: Tensor, by: Tensor) -> Tensor:
    """Soft-threshold all but the last column, the intercept."""
    shrunk = weights.sign() * (weights.abs() - by).clamp(min=0)
    return torch.cat((shrunk[..., :-1], weights[..., -1:]), dim=-1)


def objective(head: Head, x: Tensor, y: Tensor, *, strength: float) -> float:
    """Return the objective that `l1_logistic` minimises."""
    fit = losses.cross_entropy(head(x.double()), y).sum()
    return float(strength * fit + head.weight.abs().sum())


DFR = MethodEntry(
    "dfr",
    "DFR",
    "Kirichenko et al., ICLR 2023",
    "1, its head twice",
    stages=("pretrain", "refit"),
    supervision="bias labels",
)
MINED = MethodEntry(
    "dfr-mined",
    "DFR, mined groups",
    "after Kirichenko et al.",
    "2: miner, main",
    stages=("mine", "pretrain", "refit"),
)
