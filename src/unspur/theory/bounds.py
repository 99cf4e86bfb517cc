"""Theorems 1 and 2: upper bounds on the error of the pruned classifier.

O / w_inv is a sum of independent terms with ranges 1 and 2|α_i|, α_i = w_sp,i / w_inv, so Hoeffding's
inequality bounds how far it falls below its mean μ = π_inv + E[Z] Σ α_i π_sp,i:

    ℓ(π) ≤ 2 exp(-2 μ² / (4 Σ α_i² + 1))                                   (the paper, two-sided)

It requires w_inv > 0 and μ ≥ 0. `one_sided_bound` is half as large and holds for every μ.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from . import checks
from .checks import Array
from .environments import agreement


def train_bound(π: ArrayLike, α: ArrayLike, p: ArrayLike) -> Array:
    """Return the bound of Theorem 1 on biased data; π (..., D + 1), α (..., D) and p broadcast."""
    return mixture_bound(π, α, p, 0.0)


def test_bound(π: ArrayLike, α: ArrayLike) -> Array:
    """Return the bound of Theorem 1 on test data: 2 exp(-2 π_inv² / (4 Σ α_i² + 1))."""
    return two_sided_bound(π, α, 0.5)


def mixture_bound(π: ArrayLike, α: ArrayLike, p: ArrayLike, φ: ArrayLike) -> Array:
    """Return the bound of Theorem 2: on biased data of which a share φ contradicts the label."""
    return two_sided_bound(π, α, agreement(p, φ))


def two_sided_bound(π: ArrayLike, α: ArrayLike, agree: ArrayLike) -> Array:
    """Return the paper's bound for any environment: 2 exp(-2 μ² / (4 Σ α_i² + 1))."""
    μ = mean_output(π, α, agree)
    result: Array = 2 * np.exp(-2 * μ**2 / squared_ranges(α))
    return result


def one_sided_bound(π: ArrayLike, α: ArrayLike, agree: ArrayLike) -> Array:
    """Return exp(-2 max(μ, 0)² / (4 Σ α_i² + 1)), which holds for every α and π; ties count as errors."""
    μ = np.maximum(mean_output(π, α, agree), 0.0)
    return np.exp(-2 * μ**2 / squared_ranges(α))


def mean_output(π: ArrayLike, α: ArrayLike, agree: ArrayLike) -> Array:
    """Return μ = E[O | Y = 1] / w_inv = π_inv + (2 agree - 1) Σ α_i π_sp,i."""
    α = checks.vector(α, "α")
    π = checks.keep(π, α.shape[-1] + 1)
    result: Array = π[..., 0] + (2 * checks.probability(agree, "agree") - 1) * (α * π[..., 1:]).sum(
        axis=-1
    )
    return result


def squared_ranges(α: ArrayLike) -> Array:
    """Return 4 Σ α_i² + 1, the sum of the squared ranges of the terms of O / w_inv."""
    result: Array = 4 * (checks.vector(α, "α") ** 2).sum(axis=-1) + 1
    return result
