"""The error of the pruned classifier, O = w_inv m_inv + Σ w_i m_i Z_i given Y = 1.

The loss of the paper is ½ E[1 - Y sgn(O)] = P(O < 0 | Y = 1) + ½ P(O = 0 | Y = 1). The second term is not
zero if masks can remove all weights, or if weights cancel, so both terms are returned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from . import checks
from .checks import Array
from .environments import Environment

MOST_BITS = 20  # two tables of 3^10 sums
SAME = 1e-10  # sums this close to 0, in units of Σ|w|, count as ties, because floats do not cancel exactly


@dataclass(frozen=True)
class Error:
    """The probability of a wrong output, and of a tie."""

    below: float
    tie: float
    spread: float = 0.0  # the standard error of `loss`, 0 for exact values

    @property
    def loss(self) -> float:
        """The loss ½ E[1 - Y sgn(O)], in which a tie is half an error."""
        return self.below + self.tie / 2

    @property
    def at_most(self) -> float:
        """P(O ≤ 0 | Y = 1), in which a tie is an error."""
        return self.below + self.tie


def exact_error(w: ArrayLike, π: ArrayLike, environment: Environment) -> Error:
    """Return the exact error over all masks and inputs; w and π are (w_inv, w_sp,1 ... w_sp,D).

    Each spurious term is -w, 0 or w, which gives 3^D outcomes. They are split into two tables of about
    3^(D/2) sums. One table is sorted; for each sum s of the other, the probability below -s is looked up.
    """
    w, π = _pair(w, π)
    d = len(w) - 1
    if d > MOST_BITS:
        raise ValueError(
            f"D = {d} is too large for the exact error (at most {MOST_BITS}); use sampled_error."
        )
    middle = 1 + d // 2
    left, left_odds = _sums(w[1:middle], π[1:middle], environment.agree)
    right, right_odds = _sums(w[middle:], π[middle:], environment.agree)
    right = np.concatenate([right, right + w[0]])
    right_odds = np.concatenate([right_odds * (1 - π[0]), right_odds * π[0]])
    order = np.argsort(left, kind="stable")
    left, up_to = left[order], np.concatenate([[0.0], np.cumsum(left_odds[order])])
    close = SAME * np.abs(w).sum()
    below = up_to[np.searchsorted(left, -right - close, side="left")]
    not_above = up_to[np.searchsorted(left, -right + close, side="right")]
    return Error(float(right_odds @ below), float(right_odds @ (not_above - below)))


def sampled_error(
    w: ArrayLike,
    π: ArrayLike,
    environment: Environment,
    rng: np.random.Generator,
    *,
    n: int = 100_000,
) -> Error:
    """Estimate the error from n random masks and inputs, for any D."""
    w, π = _pair(w, π)
    checks.count(n, "n")
    u = rng.random((n, len(w) - 1))  # m Z is 1, -1, or 0 if the mask is off
    terms = np.where(u < π[1:] * environment.agree, 1.0, np.where(u < π[1:], -1.0, 0.0))
    values = w[0] * (rng.random(n) < π[0]) + terms @ w[1:]
    close = SAME * np.abs(w).sum()
    below, tie = np.mean(values < -close), np.mean(np.abs(values) <= close)
    variance = below + tie / 4 - (below + tie / 2) ** 2
    return Error(float(below), float(tie), float(np.sqrt(max(variance, 0.0) / n)))


def _sums(w: Array, π: Array, agree: float) -> tuple[Array, Array]:
    """Return every possible value of Σ w_i m_i Z_i and its probability."""
    sums, odds = np.zeros(1), np.ones(1)
    for weight, probability in zip(w, π, strict=True):
        steps = (
            (0.0, 1 - probability),
            (weight, probability * agree),
            (-weight, probability * (1 - agree)),
        )
        possible = [(step, chance) for step, chance in steps if chance > 0]
        sums = np.concatenate([sums + step for step, _ in possible])
        odds = np.concatenate([odds * chance for _, chance in possible])
    return sums, odds


def _pair(w: ArrayLike, π: ArrayLike) -> tuple[Array, Array]:
    w = checks.vector(w, "w")
    if w.ndim != 1 or len(w) < 2:
        raise ValueError(
            f"w must be (w_inv, w_sp,1 ... w_sp,D) with D of 1 or more, not {w.shape}."
        )
    π = checks.keep(π, len(w))
    if π.ndim != 1:
        raise ValueError(f"π must have one axis, like w, not shape {π.shape}.")
    return w, π
