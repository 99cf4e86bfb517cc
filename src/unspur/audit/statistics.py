"""The statistics of an audit, each with the p-value of its null hypothesis: gain and separation.

evidence.py explains what they distinguish.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .thresholds import THRESHOLDS


@dataclass(frozen=True)
class Statistic:
    """A number and the p-value of its null hypothesis."""

    value: float
    p_value: float


def gain(before: Tensor, after: Tensor, conflict: Tensor) -> Statistic:
    """Return the accuracy gained on suspects plus the change on all other samples, with a one-sided p-value.

    `before` and `after` mark the samples that the control network and the network get right. The variance is
    that of changes with a mean of 0, as in McNemar's test. The observed variance would be 0 if all of a few
    suspects changed, and the p-value too small.
    """
    change = after.double() - before.double()
    parts = [change[conflict], change[~conflict]]
    total = sum(float(part.mean()) for part in parts if len(part))
    variance = sum(float(part.square().mean()) / len(part) for part in parts if len(part))
    return Statistic(total, _upper_tail(total / math.sqrt(variance)) if variance else 1.0)


def separation(
    doubt: Tensor, conflict: Tensor, strata: Tensor, *, among: Tensor
) -> Statistic | None:
    """Return how often a suspect is doubted more than an ordinary sample of its stratum.

    Mann-Whitney's U, summed over strata; the p-value is one-sided, by the normal approximation. None if there
    is no pair to compare.
    """
    wins = pairs = variance = 0.0
    for stratum in torch.unique(strata[among & conflict]).tolist():
        here = among & (strata == stratum)
        ones, others = doubt[here & conflict], doubt[here & ~conflict]
        wins += _wins(ones, others)
        pairs += len(ones) * len(others)
        variance += len(ones) * len(others) * (len(ones) + len(others) + 1) / 12
    if not pairs:
        return None
    return Statistic(wins / pairs, _upper_tail((wins - pairs / 2) / math.sqrt(variance)))


def relative_margin(margin: Tensor, conflict: Tensor, answer: Tensor) -> Tensor:
    """Divide margins by the median margin of ordinary samples with the same answer.

    The result is 0 if that median is not positive or there is no such sample.
    """
    scale = torch.zeros_like(margin)
    for label in torch.unique(answer).tolist():
        here = answer == label
        ordinary = margin[here & ~conflict]
        if len(ordinary):
            scale[here] = ordinary.median()
    return torch.where(scale > 0, margin / scale, 0.0)


def corrected(statistics: Mapping[str, Statistic]) -> dict[str, Statistic]:
    """Apply Bonferroni's correction for the number of networks."""
    return {
        name: replace(statistic, p_value=min(1.0, statistic.p_value * len(statistics)))
        for name, statistic in statistics.items()
    }


def strongest(statistics: Mapping[str, Statistic]) -> tuple[str, Statistic] | None:
    """Return the largest statistically significant value, or the one with the smallest p-value.

    The p-value returned is corrected for the number of networks. None if there is no statistic.
    """
    if not statistics:
        return None
    found = corrected(statistics)
    significant = [name for name in found if found[name].p_value <= THRESHOLDS.p_value]
    if significant:
        name = max(significant, key=lambda name: found[name].value)
    else:
        name = min(found, key=lambda name: (statistics[name].p_value, -found[name].value))
    return name, found[name]


def wilson(hits: int, count: int, *, z: float = 1.96) -> tuple[float, float]:
    """Return Wilson's interval of a share, 95 % by default; its width is not 0 for a share of 0 or 1."""
    if count == 0:
        return float("nan"), float("nan")
    share = hits / count
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    spread = z / (1 + z * z / count)
    spread *= (share * (1 - share) / count + z * z / (4 * count * count)) ** 0.5
    return max(0.0, centre - spread), min(1.0, centre + spread)


def _upper_tail(z: float) -> float:
    """Return the probability that a standard normal variable exceeds z."""
    return 0.5 * math.erfc(z / math.sqrt(2))


def _wins(ones: Tensor, others: Tensor) -> float:
    """Count the pairs in which the first is larger; a tie counts one half."""
    ordered = torch.sort(others).values
    below, upto = (torch.searchsorted(ordered, ones, right=right) for right in (False, True))
    return float((below + upto).double().sum()) / 2
