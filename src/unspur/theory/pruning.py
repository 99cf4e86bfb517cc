"""Learn the mask probabilities π, to see which weights are kept: the paper's claim.

The pretrained weights are frozen. Projected gradient descent on π in [0, 1] minimises an objective on data of
which a share φ contradicts the label. There are four objectives, all of O given Y = 1:

    bound         log of Theorem 2's bound: -2 μ² / (4 Σ α_i² + 1)
    exponential   log E e^{-O} = Σ log(1 - π_j + π_j c_j), c = e^{-w_inv} and q e^{-w_i} + (1-q) e^{w_i}
    logistic      E log(1 + e^{-O}), from random masks and inputs: what training minimises
    error         P(O < 0) + ½ P(O = 0), also from random masks and inputs

The first two are exact. For the others ∂/∂π_j is the expected difference between keeping and removing
weight j. Its estimate is unbiased: every draw is scored with weight j kept and with weight j removed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from . import checks
from .checks import Array
from .error_rates import SAME

Objective = Literal["bound", "exponential", "logistic", "error"]
Gradient = Callable[[Array, Array, Array, np.random.Generator, int], Array]


def learn(
    w: ArrayLike,
    agree: ArrayLike,
    *,
    objective: Objective = "logistic",
    start: float = 0.8,
    steps: int = 300,
    rate: float = 0.1,
    sparsity: float = 1e-3,
    batch: int = 256,
    rng: np.random.Generator | None = None,
) -> Array:
    """Return the learned π, (*agree.shape, *w.shape): one problem for every agreement and weight vector.

    `w` is (..., D + 1) with the invariant weight first; `agree` is (1 - φ) p. `sparsity` × Σ π is added to
    the objective, so that a weight without influence is removed.
    """
    w, agree = checks.vector(w, "w"), checks.probability(agree, "agree")
    if w.shape[-1] < 2:
        raise ValueError(f"w must be (..., D + 1) with D of 1 or more, not {w.shape}.")
    if objective not in _GRADIENTS:
        raise ValueError(f"objective must be one of {', '.join(_GRADIENTS)}, not {objective!r}.")
    if objective == "bound" and not np.all(w[..., 0] > 0):
        raise ValueError("the bound needs w_inv > 0: it is a statement about w_sp / w_inv.")
    checks.probability(start, "start")
    checks.count(steps, "steps")
    checks.positive(rate, "rate")
    checks.count(batch, "batch")
    rng = rng or np.random.default_rng(0)
    agreements = agree.reshape(agree.shape + (1,) * w.ndim)
    π = np.full(agree.shape + w.shape, start)
    w = np.broadcast_to(w, π.shape)
    for _ in range(steps):
        gradient = _GRADIENTS[objective](w, π, agreements, rng, batch) + sparsity
        π = np.clip(π - rate * gradient, 0.0, 1.0)
    return π


def critical_φ(w: ArrayLike, p: ArrayLike) -> Array:
    """Return the φ above which the exponential loss removes a spurious weight w > 0: 1 - σ(w)/p.

    The weight is kept as long as w < log(q/(1-q)), q = (1-φ)p. It is removed before the bits are fair coins,
    and a larger weight earlier. A negative value means that it is removed even without debiasing.
    """
    return 1 - 1 / (1 + np.exp(-checks.finite(w, "w"))) / checks.biased_p(p)


def _bound(w: Array, π: Array, agree: Array, _: np.random.Generator, __: int) -> Array:
    α = w[..., 1:] / w[..., :1]
    mean_bit = 2 * agree - 1
    μ = π[..., :1] + mean_bit * (α * π[..., 1:]).sum(axis=-1, keepdims=True)
    direction = np.concatenate([np.ones_like(μ), mean_bit * α], axis=-1)
    gradient: Array = -4 * μ * direction / (4 * (α**2).sum(axis=-1, keepdims=True) + 1)
    return gradient


def _exponential(w: Array, π: Array, agree: Array, _: np.random.Generator, __: int) -> Array:
    c = agree * np.exp(-w) + (1 - agree) * np.exp(w)
    c[..., 0] = np.exp(-w[..., 0])
    return (c - 1) / (1 - π + π * c)


def _sampled(loss: Callable[[Array, Array], Array]) -> Gradient:
    """Return the gradient E[loss(O with weight j) - loss(O without weight j)], for every j."""

    def gradient(w: Array, π: Array, agree: Array, rng: np.random.Generator, batch: int) -> Array:
        z = np.where(rng.random((batch, *π.shape)) < agree, 1.0, -1.0)
        z[..., 0] = 1.0
        terms = w * z
        terms_kept = terms * (rng.random(z.shape) < π)
        without = terms_kept.sum(axis=-1, keepdims=True) - terms_kept
        scale = np.abs(w).sum(axis=-1, keepdims=True)
        difference: Array = (loss(without + terms, scale) - loss(without, scale)).mean(axis=0)
        return difference

    return gradient


def _logistic(output: Array, _: Array) -> Array:
    return np.logaddexp(0.0, -output)


def _mistake(output: Array, scale: Array) -> Array:
    close = SAME * scale
    return np.where(output < -close, 1.0, np.where(output > close, 0.0, 0.5))


_GRADIENTS: dict[str, Gradient] = {
    "bound": _bound,
    "exponential": _exponential,
    "logistic": _sampled(_logistic),
    "error": _sampled(_mistake),
}
