"""DFR: refit the last layer on balanced groups, the features as they are (Kirichenko et al., ICLR 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .. import losses, noise


@dataclass(frozen=True)
class Head:
    """A linear layer."""

    weight: Tensor
    bias: Tensor

    def __call__(self, features: Tensor) -> Tensor:
        return features @ self.weight.T + self.bias

    def after_scaling(self, mean: Tensor, sd: Tensor) -> Head:
        """The same layer for features as they were before (x - mean) / sd."""
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
) -> tuple[Head, dict[str, float]]:
    """A new head: L1 logistic regressions on balanced subsets of standardised features, averaged.

    A group is a class with or without conflict. Half of the samples choose the strength of the data term
    (by mean accuracy over groups), after fits on the other half.
    """
    groups = targets * 2 + conflict.long()
    mean, sd = features.double().mean(0), features.double().std(0).clamp(min=1e-6)
    x = (features.double() - mean) / sd
    first = noise.uniform(seed, 0, noise.HOLD_OUT, (len(x),)) < 0.5
    trial = balanced(groups, first, seed=seed, draw=0)
    accuracies = {}
    for strength in strengths:
        head = l1_logistic(x[trial], targets[trial], classes=classes, strength=strength)
        right = head(x[~first]).argmax(1) == targets[~first]
        accuracies[strength] = mean_by_group(right, groups[~first])
    best = max(accuracies, key=lambda strength: accuracies[strength])
    everyone = torch.ones_like(first)
    heads = []
    for draw in range(1, subsets + 1):
        some = balanced(groups, everyone, seed=seed, draw=draw)
        heads.append(l1_logistic(x[some], targets[some], classes=classes, strength=best))
    weight = torch.stack([head.weight for head in heads]).mean(0)
    bias = torch.stack([head.bias for head in heads]).mean(0)
    facts = {"strength": best, "chosen_at": accuracies[best], "subset": float(len(some))}
    return Head(weight, bias).after_scaling(mean, sd), facts


def balanced(groups: Tensor, among: Tensor, *, seed: int, draw: int) -> Tensor:
    """A random subset of some samples with as many of every group as the smallest has."""
    keys = noise.uniform(seed, draw, noise.PERMUTE, (len(groups),))
    order = torch.sort(keys).indices
    order = order[among[order]]
    members = [order[groups[order] == g] for g in torch.unique(groups[order])]
    fewest = min(len(each) for each in members)
    return torch.cat([each[:fewest] for each in members])


def mean_by_group(right: Tensor, groups: Tensor) -> float:
    """Accuracy, every group weighing the same."""
    shares = [right[groups == g].double().mean() for g in torch.unique(groups)]
    return float(torch.stack(shares).mean())


def l1_logistic(
    x: Tensor,
    y: Tensor,
    *,
    classes: int,
    strength: float,
    steps: int = 2000,
    tolerance: float = 1e-7,
) -> Head:
    """Minimise strength · Σ cross entropy + |W|₁, the intercept free, by accelerated proximal steps."""
    x = torch.cat((x.double(), torch.ones(len(x), 1, dtype=torch.float64)), dim=1)
    # The Hessian of the softmax is at most 1/2: a step of this size never goes up.
    size = 2 / (strength * float(torch.linalg.matrix_norm(x, ord=2)) ** 2)
    now = ahead = torch.zeros(classes, x.shape[1], dtype=torch.float64)
    pace = 1.0
    for _ in range(steps):
        error = torch.softmax(ahead @ x.T, dim=0)
        error[y, torch.arange(len(y))] -= 1
        new = shrink(ahead - size * strength * error @ x, size)
        moved = new - now
        if float((moved * (ahead - new)).sum()) > 0:
            pace = 1.0  # the momentum points uphill: start it anew
        next_pace = (1 + (1 + 4 * pace**2) ** 0.5) / 2
        ahead = new + (pace - 1) / next_pace * moved
        now, pace = new, next_pace
        if float(moved.abs().max()) < tolerance:
            break
    return Head(now[:, :-1], now[:, -1])


def shrink(weights: Tensor, by: float) -> Tensor:
    """Soft thresholding of all but the last column, the intercept."""
    shrunk = weights.sign() * (weights.abs() - by).clamp(min=0)
    return torch.cat((shrunk[:, :-1], weights[:, -1:]), dim=1)


def objective(head: Head, x: Tensor, y: Tensor, *, strength: float) -> float:
    """What `l1_logistic` minimises."""
    fit = losses.cross_entropy(head(x.double()), y).sum()
    return float(strength * fit + head.weight.abs().sum())
