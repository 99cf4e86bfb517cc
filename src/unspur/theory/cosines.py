"""Lemma 1: at initialisation a biased sample is closer to biased samples than to unbiased ones.

h = WX with WᵀW = I preserves angles, so for two samples of one class the expected cosine is that of their
inputs. If every column but the first is masked, only the invariant bit remains, and there is no gap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from . import checks
from .checks import Array
from .environments import Environment, biased, fair


@dataclass(frozen=True)
class Cosines:
    """Mean cosine of two biased samples, and of a biased and an unbiased sample, of the same class."""

    among: float
    across: float
    among_spread: float = 0.0  # standard errors, 0 for exact values
    across_spread: float = 0.0

    @property
    def gap(self) -> float:
        return self.among - self.across


def expected_cosines(d: int, p: float, *, kept: int | None = None) -> Cosines:
    """Return (1 + k(2p-1)²)/(k+1) and 1/(k+1), where `kept` = k of the D spurious columns are kept."""
    checks.count(d, "D")
    k = d if kept is None else checks.count(kept, "kept", least=0)
    if k > d:
        raise ValueError(f"kept = {k} is more than the D = {d} spurious columns.")
    mean = biased(p).mean
    return Cosines((1 + k * mean**2) / (k + 1), 1 / (k + 1))


def semi_orthogonal(rng: np.random.Generator, q: int, d: int) -> Array:
    """Return a random W (q, d + 1) with WᵀW = I, uniformly distributed; needs q ≥ d + 1."""
    if checks.count(q, "Q") < checks.count(d, "D") + 1:
        raise ValueError(f"WᵀW = I needs Q of at least D + 1 = {d + 1} rows, not {q}.")
    columns, triangle = np.linalg.qr(rng.normal(size=(q, d + 1)))
    result: Array = columns * np.sign(np.diag(triangle))
    return result


def sampled_cosines(
    rng: np.random.Generator, w: ArrayLike, p: float, *, n: int = 20_000, kept: int | None = None
) -> Cosines:
    """Estimate the cosines from n random pairs through the first 1 + `kept` columns of W (Q, D + 1)."""
    w = _matrix(w)
    checks.count(n, "n")
    d = w.shape[1] - 1
    expected_cosines(d, p, kept=kept)  # raises if `kept` is too large
    used = w * (np.arange(d + 1) <= (d if kept is None else kept))
    first, second, other = (_features(rng, used, e, n) for e in (biased(p), biased(p), fair()))
    among, across = (first * second).sum(axis=1), (first * other).sum(axis=1)
    error = np.sqrt(n)
    return Cosines(
        float(among.mean()),
        float(across.mean()),
        float(among.std() / error),
        float(across.std() / error),
    )


def _features(rng: np.random.Generator, w: Array, environment: Environment, n: int) -> Array:
    """Return unit features (n, Q) of n samples, multiplied by their label so that all are of class 1."""
    x, y = environment.sample(rng, n, w.shape[1] - 1)
    h = (x * y[:, None]) @ w.T
    result: Array = h / np.linalg.norm(h, axis=1, keepdims=True)
    return result


def _matrix(w: ArrayLike) -> Array:
    w = checks.finite(w, "W")
    if w.ndim != 2 or w.shape[1] < 2:
        raise ValueError(f"W must have shape (Q, D + 1) with D of 1 or more, not {w.shape}.")
    return w
