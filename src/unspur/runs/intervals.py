"""95 % intervals of accuracies, over the samples that were scored: the bootstrap, or others for few samples.

A sample enters an accuracy only by its group and by which networks get it right. So a bootstrap resample is
exactly one draw from a multinomial distribution over these kinds of samples. Networks are compared on the
same draws.

With few samples a bootstrap interval is too narrow; if all of them are right, it has no width. So a share
with fewer than `FEW` samples right, or wrong, has Wilson's interval. A gain with fewer than `FEW` samples
besides the most frequent of won, lost and unchanged has that of `paired_interval`. A mean over groups of
which one has fewer than `FEW` samples combines the intervals of its groups, and so does the difference of two
groups (Zou and Donner, Statistics in Medicine 27, 2008).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..audit.statistics import wilson as wilson
from ..stages.measured_gain import paired_interval

DRAWS, LEVEL = 2000, 0.95
FEW = 10  # samples below which the percentiles of a bootstrap are too narrow
METRICS = ("unbiased", "aligned", "conflicting", "worst_group", "average")

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Interval = tuple[float, float]


@dataclass(frozen=True)
class Intervals:
    """The 95 % intervals of each network's accuracies, and of the debiased network's gain."""

    accuracy: dict[str, dict[str, Interval]]
    gain: dict[str, Interval]


def bootstrap(tensors: Mapping[str, Tensor], *, seed: int = 0, comparisons: int = 1) -> Intervals:
    """Compute intervals from the tensors of `evaluate`: targets, predictions, bias and conflict if known.

    Gains are corrected for the number of comparisons (Bonferroni).
    """
    groups = _groups(tensors)
    truth = tensors["targets"].numpy()
    right = {
        name.partition(".")[2]: t.numpy() == truth
        for name, t in sorted(tensors.items())
        if name.startswith("predicted.")
    }
    total, *hits = _draws(groups.of, np.stack(list(right.values())), seed)
    draws = {
        name: _accuracies(groups, total, each, groups.worst(right[name]))
        for name, each in zip(right, hits, strict=True)
    }
    accuracy = {
        name: {metric: _accuracy(groups, right[name], metric, d) for metric, d in each.items()}
        for name, each in draws.items()
    }
    gain: dict[str, Interval] = {}
    if {"ordinary", "debiased"} <= draws.keys():
        before, after = draws["ordinary"], draws["debiased"]
        pair = right["ordinary"], right["debiased"]
        level = 1 - (1 - LEVEL) / comparisons
        gain = {m: _gain(groups, *pair, m, after[m] - before[m], level) for m in before}
    return Intervals(accuracy, gain)


def share_interval(share: float, count: int, *, seed: int = 0) -> Interval:
    """Return the interval of a share among `count` samples."""
    draws = np.random.default_rng(seed).binomial(count, share, size=DRAWS) / count
    return _share_interval(round(share * count), count, draws)


@dataclass(frozen=True)
class _Groups:
    """The group of each sample; whether bias labels define them, and which are conflicting, if known."""

    of: NDArray[np.int64]
    are_known: bool
    conflict: Flags | None

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.bincount(self.of)

    def count(self, samples: Flags) -> NDArray[np.int64]:
        """Count some samples by group."""
        return np.bincount(self.of[samples], minlength=len(self.sizes))

    def worst(self, right: Flags) -> int:
        """Return the group with the lowest accuracy."""
        return int(np.argmin(self.count(right) / self.sizes))

    def part(self, metric: str, right: Flags) -> Flags:
        """Return the groups whose samples an accuracy is the share of."""
        chosen = np.ones(len(self.sizes), bool)
        if metric == "worst_group":
            chosen[:] = False
            chosen[self.worst(right)] = True
        elif metric != "average" and self.conflict is not None:
            chosen = self.conflict if metric == "conflicting" else ~self.conflict
        return chosen


def _groups(tensors: Mapping[str, Tensor]) -> _Groups:
    targets = tensors["targets"].numpy().astype(np.int64)
    if "bias" not in tensors:
        return _Groups(np.zeros_like(targets), False, None)
    bias = tensors["bias"].numpy().astype(np.int64)
    _, of = np.unique(targets * (bias.max() + 1) + bias, return_inverse=True)
    if "conflict" not in tensors:
        return _Groups(of, True, None)
    conflict = np.zeros(of.max() + 1, bool)
    conflict[of] = tensors["conflict"].numpy()
    return _Groups(of, True, conflict)


# -- the bootstrap ------------------------------------------------------------------------------------


def _draws(cells: NDArray[np.int64], right: Flags, seed: int) -> list[Array]:
    """Return resampled counts (draw, group): of all samples, then of those that each network gets right."""
    bits = (right.T * 2 ** np.arange(len(right))).sum(1)
    kinds, counts = np.unique(cells * 2 ** len(right) + bits, return_counts=True)
    group, bits = kinds >> len(right), kinds & (2 ** len(right) - 1)
    resamples = np.random.default_rng(seed).multinomial(len(cells), counts / len(cells), size=DRAWS)
    starts = np.searchsorted(group, np.arange(cells.max() + 1))  # kinds are sorted by group
    weights = [np.ones_like(bits), *((bits >> k) & 1 for k in range(len(right)))]
    return [np.add.reduceat(resamples * w, starts, axis=1).astype(np.float64) for w in weights]


def _accuracies(groups: _Groups, total: Array, hits: Array, worst: int) -> dict[str, Array]:
    """Return all accuracies of a network by draw; `worst` is the group that is worst in the data."""
    found = {"average": hits.sum(1) / total.sum(1)}
    with np.errstate(invalid="ignore"):  # a group without samples in a draw is NaN, and not counted
        if groups.are_known:
            each = hits / total
            found["unbiased"] = np.nansum(each, axis=1) / (total > 0).sum(1)
            found["worst_group"] = each[:, worst]
        if groups.conflict is not None:
            for name, chosen in (("aligned", ~groups.conflict), ("conflicting", groups.conflict)):
                found[name] = hits[:, chosen].sum(1) / total[:, chosen].sum(1)
    return found


def _interval(draws: Array, level: float = LEVEL) -> Interval:
    draws = draws[~np.isnan(draws)]
    if not len(draws):
        return float("nan"), float("nan")
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


# -- few samples --------------------------------------------------------------------------------------


def _accuracy(groups: _Groups, right: Flags, metric: str, draws: Array) -> Interval:
    """Return the interval of an accuracy; `draws` are its values in the bootstrap."""
    hits, sizes = groups.count(right), groups.sizes
    if metric != "unbiased":
        part = groups.part(metric, right)
        return _share_interval(int(hits[part].sum()), int(sizes[part].sum()), draws)
    if sizes.min() >= FEW:
        return _interval(draws)
    pairs = list(zip(hits.tolist(), sizes.tolist(), strict=True))
    return _sum_interval((h / n / len(pairs), *_scaled(wilson(h, n), len(pairs))) for h, n in pairs)


def _share_interval(hits: int, count: int, draws: Array) -> Interval:
    return wilson(hits, count) if min(hits, count - hits) < FEW else _interval(draws)


def _gain(
    groups: _Groups, before: Flags, after: Flags, metric: str, draws: Array, level: float
) -> Interval:
    """Return the interval of the gain in an accuracy; `draws` are its values in the bootstrap."""
    won, lost, sizes = groups.count(after & ~before), groups.count(before & ~after), groups.sizes
    z = NormalDist().inv_cdf((1 + level) / 2)
    if metric == "unbiased":
        if sizes.min() >= FEW:
            return _interval(draws, level)
        kinds = list(zip(won.tolist(), lost.tolist(), sizes.tolist(), strict=True))
        return _sum_interval(
            ((up - down) / n / len(kinds), *_scaled(paired_interval(up, down, n, z=z), len(kinds)))
            for up, down, n in kinds
        )
    first, last = (groups.part(metric, each) for each in (before, after))
    if not np.array_equal(first, last):  # the worst groups of both networks
        few, interval = _gain_of_other_group(groups, (before, first), (after, last), z)
        return interval if few else _interval(draws, level)
    count, gained, missed = (int(each[first].sum()) for each in (sizes, won, lost))
    rest = count - max(gained, missed, count - gained - missed)
    few = count > 0 and rest < FEW
    return paired_interval(gained, missed, count, z=z) if few else _interval(draws, level)


def _gain_of_other_group(
    groups: _Groups, before: tuple[Flags, Flags], after: tuple[Flags, Flags], z: float
) -> tuple[bool, Interval]:
    """Return whether one of two groups, given as (right, groups), has few samples, and their difference."""
    terms, few = [], False
    for sign, (right, part) in ((1, after), (-1, before)):
        hits, count = int(groups.count(right)[part].sum()), int(groups.sizes[part].sum())
        few = few or min(hits, count - hits) < FEW
        terms.append((sign * hits / count, *_scaled(wilson(hits, count, z=z), sign)))
    return few, _sum_interval(terms)


def _scaled(interval: Interval, divisor: int) -> Interval:
    low, high = sorted(end / divisor for end in interval)
    return low, high


def _sum_interval(terms: Iterable[tuple[float, float, float]]) -> Interval:
    """Return the interval of a sum of independent estimates, each given as (value, low, high)."""
    terms = list(terms)
    middle = sum(value for value, _, _ in terms)
    below = math.sqrt(sum((value - low) ** 2 for value, low, _ in terms))
    above = math.sqrt(sum((high - value) ** 2 for value, _, high in terms))
    return middle - below, middle + above
