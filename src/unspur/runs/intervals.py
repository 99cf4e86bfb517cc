"""Bootstrap intervals of accuracies, over the samples that were scored.

A sample enters an accuracy only by its group and by which networks get it right. So a bootstrap resample is
exactly one draw from a multinomial distribution over these kinds of samples. Networks are compared on the
same draws.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..audit.statistics import wilson as wilson

DRAWS, LEVEL = 2000, 0.95
METRICS = ("unbiased", "aligned", "conflicting", "worst_group", "average")

Array = NDArray[np.float64]
Interval = tuple[float, float]


@dataclass(frozen=True)
class Intervals:
    """The 95 % intervals of each network's accuracies, and of the debiased network's gain."""

    accuracy: dict[str, dict[str, Interval]]
    gain: dict[str, Interval]


def bootstrap(tensors: Mapping[str, Tensor], *, seed: int = 0) -> Intervals:
    """Compute intervals from the tensors of `evaluate`: targets, predictions, bias and conflict if known."""
    cells, conflict = _cells(tensors)
    grouped = "bias" in tensors
    truth = tensors["targets"].numpy()
    right = {
        name.partition(".")[2]: t.numpy() == truth
        for name, t in sorted(tensors.items())
        if name.startswith("predicted.")
    }
    counts = _draws(cells, np.stack(list(right.values())), seed)
    accuracies: dict[str, dict[str, Array]] = {}
    for number, (name, correct) in enumerate(right.items()):
        worst = _worst(cells, correct)
        hits = counts[1 + number]
        accuracies[name] = {"average": hits.sum(1) / counts[0].sum(1)}
        if grouped:
            accuracies[name] |= _by_group(counts[0], hits, worst)
        if conflict is not None:
            accuracies[name] |= _by_conflict(counts[0], hits, conflict)
    accuracy = {
        name: {metric: _interval(draws) for metric, draws in metrics.items()}
        for name, metrics in accuracies.items()
    }
    gain: dict[str, Interval] = {}
    if {"ordinary", "debiased"} <= accuracies.keys():
        before, after = accuracies["ordinary"], accuracies["debiased"]
        gain = {metric: _interval(after[metric] - before[metric]) for metric in before}
    return Intervals(accuracy, gain)


def share_interval(share: float, count: int, *, seed: int = 0) -> Interval:
    """Return the interval of a share among `count` samples."""
    draws = np.random.default_rng(seed).binomial(count, share, size=DRAWS) / count
    return _interval(draws)


def _cells(tensors: Mapping[str, Tensor]) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Return the index of each sample's group, and which groups are conflicting (None if not known)."""
    targets = tensors["targets"].numpy().astype(np.int64)
    if "bias" not in tensors:
        return np.zeros_like(targets), None
    bias = tensors["bias"].numpy().astype(np.int64)
    _, cells = np.unique(targets * (bias.max() + 1) + bias, return_inverse=True)
    if "conflict" not in tensors:
        return cells, None
    conflict = np.zeros(cells.max() + 1, bool)
    conflict[cells] = tensors["conflict"].numpy()
    return cells, conflict


def _draws(cells: NDArray[np.int64], right: NDArray[np.bool_], seed: int) -> list[Array]:
    """Return resampled counts (draw, group): of all samples, then of those that each network gets right."""
    bits = (right.T * 2 ** np.arange(len(right))).sum(1)
    kinds, counts = np.unique(cells * 2 ** len(right) + bits, return_counts=True)
    group, bits = kinds >> len(right), kinds & (2 ** len(right) - 1)
    resamples = np.random.default_rng(seed).multinomial(len(cells), counts / len(cells), size=DRAWS)
    starts = np.searchsorted(group, np.arange(cells.max() + 1))  # kinds are sorted by group
    weights = [np.ones_like(bits), *((bits >> k) & 1 for k in range(len(right)))]
    return [np.add.reduceat(resamples * w, starts, axis=1).astype(np.float64) for w in weights]


def _worst(cells: NDArray[np.int64], correct: NDArray[np.bool_]) -> int:
    """Return the index of the group with the lowest accuracy."""
    return int(np.argmin(np.bincount(cells, correct) / np.bincount(cells)))


def _by_group(total: Array, hits: Array, worst: int) -> dict[str, Array]:
    """Return the mean over groups, and the accuracy of the group that is worst in the data, by draw."""
    with np.errstate(invalid="ignore"):  # a group without samples in a draw is NaN, and not counted
        each = hits / total
    return {"unbiased": np.nansum(each, axis=1) / (total > 0).sum(1), "worst_group": each[:, worst]}


def _by_conflict(total: Array, hits: Array, conflict: NDArray[np.bool_]) -> dict[str, Array]:
    """Return the accuracies on aligned and on conflicting samples, for every draw."""
    with np.errstate(invalid="ignore"):
        return {
            name: hits[:, chosen].sum(1) / total[:, chosen].sum(1)
            for name, chosen in (("aligned", ~conflict), ("conflicting", conflict))
        }


def _interval(draws: Array) -> Interval:
    draws = draws[~np.isnan(draws)]
    if not len(draws):
        return float("nan"), float("nan")
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
