"""The distribution of the bits: how often a spurious bit agrees with the label.

Y is uniform on {-1, 1}; X = (Z_inv, Z_sp,1 ... Z_sp,D) with Z_inv = Y, and each Z_sp,i = Y with
probability `agree`, -Y otherwise, independently.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from . import checks
from .checks import Array

MOST_BITS = 20  # 2^(D+1) rows of D+1 numbers: 352 MB at 20


@dataclass(frozen=True)
class Environment:
    """An environment: spurious bits agree with the label with probability `agree`."""

    agree: float

    def __post_init__(self) -> None:
        checks.probability(self.agree, "agree")

    @property
    def mean(self) -> float:
        """The mean E[Z_sp | Y = 1]."""
        return 2 * self.agree - 1

    def sample(self, rng: np.random.Generator, n: int, d: int) -> tuple[Array, Array]:
        """Return n random inputs (n, d + 1) and their labels (n,), all ±1."""
        checks.count(n, "n")
        checks.count(d, "D")
        y = rng.choice([-1.0, 1.0], size=n)
        agrees = np.where(rng.random((n, d)) < self.agree, 1.0, -1.0)
        return np.column_stack([y, y[:, None] * agrees]), y

    def enumerate(self, d: int) -> tuple[Array, Array, Array]:
        """Return all 2^(d+1) inputs, their labels and their probabilities."""
        if checks.count(d, "D") > MOST_BITS:
            raise ValueError(
                f"D = {d} has too many inputs to list (at most {MOST_BITS}); use sample()."
            )
        agrees, weight = signs(d), self.agree ** np.arange(d + 1)
        weight = weight * (1 - self.agree) ** np.arange(d, -1, -1) / 2
        each = weight[(agrees > 0).sum(axis=1)]
        y = np.repeat([1.0, -1.0], len(agrees))
        x = y[:, None] * np.column_stack([np.ones(2 * len(agrees)), np.tile(agrees, (2, 1))])
        return x, y, np.tile(each, 2)


def biased(p: float) -> Environment:
    """Return the environment of training data: spurious bits agree with probability p in (0.5, 1]."""
    return Environment(float(checks.biased_p(p)))


def fair() -> Environment:
    """Return the environment of test data: spurious bits are fair coins."""
    return Environment(0.5)


def mixture(p: float, φ: float) -> Environment:
    """Return the environment of oversampled training data: with probability φ a bit contradicts the label.

    P(Z = y | y) = (1 - φ) p, so E[Z | Y = 1] = 2p(1 - φ) - 1.
    """
    return Environment(float(agreement(p, φ)))


def agreement(p: ArrayLike, φ: ArrayLike = 0.0) -> Array:
    """Return (1 - φ) p, also for arrays; rounding errors below 1/2 are corrected."""
    p = checks.biased_p(p)
    return np.maximum((1 - checks.mixing(φ, p)) * p, 0.5)


def φ_limit(p: ArrayLike) -> Array:
    """Return 1 - 1/(2p), the share of debiasing samples at which the bits are fair coins."""
    return 1 - 1 / (2 * checks.biased_p(p))


def signs(d: int) -> Array:
    """Return all 2^d rows of ±1."""
    bits = np.arange(2**d)[:, None] >> np.arange(d)
    return np.where(bits & 1, -1.0, 1.0)
