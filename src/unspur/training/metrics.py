"""Accuracies by group, and all accuracies that are computed from them.

Accuracies are fractions. `groups[c][k]` is the accuracy over test samples of target c and bias k. A group
without samples is None and is left out of every mean and minimum.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Accuracy:
    """The accuracies of a model: overall, of aligned and conflicting samples, and of groups."""

    unbiased: float | None  # the mean over all (target, bias) groups
    aligned: float | None  # over the samples that follow the shortcut
    conflicting: float | None  # over the samples that contradict it
    worst_group: float | None
    average: float  # over all samples
    average_train_weighted: float | None  # groups weighted by their share of the training set
    groups: list[list[float | None]] | None

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def accuracy(correct: Tensor) -> float | None:
    """Return the share of True, or None if empty."""
    return float(correct.double().mean()) if len(correct) else None


def group_counts(targets: Tensor, bias: Tensor, *, classes: int, biases: int) -> Tensor:
    """Count the samples of each (target, bias) group."""
    return torch.bincount(targets * biases + bias, minlength=classes * biases).reshape(
        classes, biases
    )


def group_matrix(
    correct: Tensor, targets: Tensor, bias: Tensor, *, classes: int, biases: int
) -> Tensor:
    """Return the accuracy of each (target, bias) group, NaN if it is empty."""
    counts = group_counts(targets, bias, classes=classes, biases=biases)
    correct_counts = group_counts(targets[correct], bias[correct], classes=classes, biases=biases)
    return correct_counts.double() / counts


def scores(
    predicted: Tensor,
    targets: Tensor,
    *,
    classes: int,
    bias: Tensor | None = None,
    conflict: Tensor | None = None,
    train_counts: Tensor | None = None,
) -> Accuracy:
    """Return all accuracies of some predictions; without bias labels those that need them are None."""
    correct = predicted == targets
    average = float(correct.double().mean())
    if bias is None or conflict is None:
        return Accuracy(None, None, None, None, average, None, None)
    biases = max(int(bias.max()) + 1, 0 if train_counts is None else train_counts.shape[1])
    matrix = group_matrix(correct, targets, bias, classes=classes, biases=biases)
    filled = ~matrix.isnan()
    weighted = None
    if train_counts is not None:
        share = train_counts.double() * filled
        if bool(share.any()):
            weighted = float((share * matrix.nan_to_num()).sum() / share.sum())
    return Accuracy(
        unbiased=float(matrix[filled].mean()),
        aligned=accuracy(correct[~conflict]),
        conflicting=accuracy(correct[conflict]),
        worst_group=float(matrix[filled].min()),
        average=average,
        average_train_weighted=weighted,
        groups=[[None if a != a else a for a in row] for row in matrix.tolist()],
    )


def mining_quality(flagged: Tensor, conflicting: Tensor) -> dict[str, float | None]:
    """Return precision and recall of a suspect set against the truly conflicting samples."""
    return {
        "precision": accuracy(conflicting[flagged]),
        "recall": accuracy(flagged[conflicting]),
    }


def mean_sd(values: list[float]) -> tuple[float, float | None]:
    """Return mean and sample standard deviation (None for a single value)."""
    v = torch.tensor(values, dtype=torch.float64)
    return float(v.mean()), float(v.std()) if len(v) > 1 else None


def surprise(logits: Tensor, targets: Tensor) -> Tensor:
    """Return 1 - p of the true class."""
    return 1 - torch.softmax(logits, dim=1).gather(1, targets[:, None]).squeeze(1)
