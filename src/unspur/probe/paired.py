"""Statistics of paired predictions: the same images are classified twice."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

from torch import Tensor

LEVEL = 0.95
Interval = tuple[float, float]


@dataclass(frozen=True)
class PairedShare:
    """A share of images before and after, and the interval and p-value of the difference.

    Interval and p-value are corrected for the number of comparisons (Bonferroni).
    """

    count: int
    before: float
    after: float
    interval: Interval
    p_value: float

    @property
    def difference(self) -> float:
        return self.after - self.before


def compare(
    before: Tensor, after: Tensor, *, comparisons: int = 1, one_sided: bool = False
) -> PairedShare:
    """Compare two shares of the same images; `before` and `after` mark the images that count."""
    count = len(before)
    if not count:
        return PairedShare(0, math.nan, math.nan, (math.nan, math.nan), 1.0)
    gained, lost = int((after & ~before).sum()), int((before & ~after).sum())
    p_value = sign_test(gained, lost, one_sided=one_sided)
    return PairedShare(
        count,
        float(before.double().mean()),
        float(after.double().mean()),
        interval(gained, lost, count, level=1 - (1 - LEVEL) / comparisons),
        min(1.0, comparisons * p_value),
    )


def interval(gained: int, lost: int, count: int, *, level: float = LEVEL) -> Interval:
    """Return the interval of a difference of paired shares (Bonett and Price, 2012)."""
    z = NormalDist().inv_cdf(0.5 + level / 2)
    gain, loss = (gained + 1) / (count + 2), (lost + 1) / (count + 2)
    spread = z * math.sqrt((gain + loss - (gain - loss) ** 2) / (count + 2))
    return max(-1.0, gain - loss - spread), min(1.0, gain - loss + spread)


def sign_test(gained: int, lost: int, *, one_sided: bool = False) -> float:
    """Return the exact p-value of McNemar's test that gains and losses are equally likely.

    With `one_sided`, the alternative is that there are more gains.
    """
    count = gained + lost
    if not count:
        return 1.0
    tail = _upper_tail(gained if one_sided else max(gained, lost), count)
    return tail if one_sided else min(1.0, 2 * tail)


def _upper_tail(least: int, count: int) -> float:
    """Return the probability of at least `least` heads in `count` tosses of a coin."""
    total = ways = math.comb(count, least)
    for heads in range(least, count):
        ways = ways * (count - heads) // (heads + 1)
        total += ways
    return float(Fraction(total, 2**count))
