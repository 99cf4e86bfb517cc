"""Proposition 1: how fast invariant and spurious weights grow under gradient flow.

With the exponential loss L = e^{-w_inv} Π g(w_i), g(w) = p e^{-w} + (1-p) e^{w}, gradient flow is

    ẇ_inv = e^{-w_inv} Π g(w_i)          ẇ_i = e^{-w_inv} h(w_i) Π_{j≠i} g(w_j)

with h(w) = p e^{-w} - (1-p) e^{w}. From w_inv(0) > 0 and 0 < w_i(0) < ½ log(p/(1-p)), w_inv grows without
limit and w_i grows to ½ log(p/(1-p)), so α_i = w_i / w_inv goes to 0, but only like 1/log t.

Along the flow e^{w_inv} h(w_i) is constant for each i. So w_i is a closed-form function of w_inv
(`spurious_at`), which the paper does not use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..extras import need
from . import checks
from .checks import Array


@dataclass(frozen=True)
class Start:
    """The start of the flow: p in (0.5, 1], w_inv(0), and w_i(0) for each spurious bit."""

    p: float
    w_inv: float
    w_sp: Array

    def __post_init__(self) -> None:
        checks.biased_p(self.p)
        checks.finite(self.w_inv, "w_inv(0)")
        if checks.vector(self.w_sp, "w_sp(0)").ndim != 1:
            raise ValueError(f"w_sp(0) must have one axis, not shape {np.shape(self.w_sp)}.")

    @property
    def d(self) -> int:
        return len(self.w_sp)

    @property
    def assumed(self) -> bool:
        """Whether Proposition 1 applies: w_inv(0) > 0 and 0 < w_i(0) < ½ log(p/(1-p))."""
        return bool(self.w_inv > 0 and np.all((self.w_sp > 0) & (self.w_sp < w_limit(self.p))))


@dataclass(frozen=True)
class Trajectory:
    """The weights at times t (n,): w_inv (n,), w_sp (n, D)."""

    t: Array
    w_inv: Array
    w_sp: Array

    @property
    def ratio(self) -> Array:
        """The ratios α_i(t), (n, D)."""
        return self.w_sp / self.w_inv[:, None]


def equal_start(p: float, d: int, *, w_inv: float, w_sp: float) -> Start:
    """Return a start with the same weight on all d spurious bits."""
    return Start(p, w_inv, np.full(checks.count(d, "D"), float(w_sp)))


def integrate(
    start: Start, t: ArrayLike, *, rtol: float = 1e-10, atol: float = 1e-12
) -> Trajectory:
    """Solve the flow at increasing times t ≥ 0, by an implicit Runge-Kutta method with the exact Jacobian."""
    t = _times(t)
    solution = need("scipy.integrate").solve_ivp(
        lambda _, w: _velocity(w, start.p),
        (0.0, float(t[-1])),
        np.concatenate([[start.w_inv], start.w_sp]),
        method="Radau",
        jac=lambda _, w: _jacobian(w, start.p),
        t_eval=t,
        rtol=rtol,
        atol=atol,
    )
    if not solution.success:
        raise ArithmeticError(f"the solver failed before t = {t[-1]:g}: {solution.message}")
    return Trajectory(t, solution.y[0], solution.y[1:].T)


# The conserved quantity


def conserved(p: float, w_inv: ArrayLike, w_sp: ArrayLike) -> Array:
    """Return e^{w_inv} h(w_i), (..., D), which is constant along the flow for every spurious bit."""
    scale: Array = np.exp(np.asarray(w_inv, dtype=np.float64))[..., None]
    return scale * _h(np.asarray(w_sp, dtype=np.float64), p)


def spurious_at(start: Start, w_inv: ArrayLike) -> Array:
    """Return the exact spurious weights (..., D) at the time when the invariant weight is w_inv.

    h(w) = c has the unique solution e^{w} = 2p / (c + √(c² + 4p(1-p))), and c decreases like e^{-w_inv}.
    """
    c0 = conserved(start.p, start.w_inv, start.w_sp)
    c = c0 * np.exp(-np.asarray(w_inv, dtype=np.float64))[..., None]
    root = np.sqrt(c**2 + 4 * start.p * (1 - start.p))
    # For c < 0 (a weight above its limit) the sum above would cancel; this form does not.
    with np.errstate(divide="ignore", invalid="ignore"):
        above = np.log((root - c) / (2 * (1 - start.p)))
        return np.where(c < 0, above, np.log(2 * start.p / (c + root)))


def w_limit(p: ArrayLike) -> Array:
    """Return ½ log(p/(1-p)), the limit of spurious weights; infinite at p = 1."""
    p = checks.biased_p(p)
    with np.errstate(divide="ignore"):
        return 0.5 * np.log(p / (1 - p))


# The bounds of Proposition 1


def w_inv_bounds(start: Start, t: ArrayLike) -> tuple[Array, Array]:
    """Return a lower and an upper bound on w_inv(t):

    log(e^{w_inv(0)} + [4p(1-p)]^{D/2} t)  and  log(e^{w_inv(0)} + t Π (p e^{-w_i(0)} + √(p(1-p)))).
    """
    _assume(start)
    t, p, base = _times(t), start.p, np.exp(start.w_inv)
    slow = (4 * p * (1 - p)) ** (start.d / 2)
    fast = np.prod(p * np.exp(-start.w_sp) + np.sqrt(p * (1 - p)))
    return np.log(base + slow * t), np.log(base + fast * t)


def w_sp_lower(start: Start, t: ArrayLike, most: float) -> Array:
    """Return a lower bound (n, D) on w_i(t) for 0 ≤ t ≤ T; `most` is w_inv(T) or any larger number.

    ½ log(p/(1-p)) + log tanh(artanh(√((1-p)/p) e^{w_i(0)}) + e^{-w_inv(T)} 2^{D-1} [p(1-p)]^{D/2} t)
    """
    _assume(start)
    t, p = _times(t), start.p
    if p == 1:  # the limit p → 1: both terms vanish at the same rate when D = 1
        growth = np.exp(-most) * t[:, None] if start.d == 1 else 0.0 * t[:, None]
        return np.log(np.exp(start.w_sp) + growth)
    scale = np.sqrt((1 - p) / p)
    rate = np.exp(-most) * 2.0 ** (start.d - 1) * (p * (1 - p)) ** (start.d / 2)
    inner = np.arctanh(scale * np.exp(start.w_sp)) + rate * t[:, None]
    return np.asarray(np.log(np.tanh(inner) / scale))


def ratio_lower(start: Start, t: ArrayLike, most: float) -> Array:
    """Return a lower bound (n, D) on α_i(t): that on w_i(t) divided by the upper bound on w_inv(t)."""
    return w_sp_lower(start, t, most) / w_inv_bounds(start, t)[1][:, None]


def ratio_lower_at_one(start: Start, t: ArrayLike) -> Array:
    """Return the bound on lim α_i(t) as p → 1, (n, D): w_i(0) / log(e^{w_inv(0)} + t e^{-Σ w_j(0)})."""
    _assume(start)
    total = np.log(np.exp(start.w_inv) + _times(t) * np.exp(-start.w_sp.sum()))
    return np.asarray(start.w_sp / total[:, None])


def ratio_floor_at_one(start: Start, horizon: float) -> Array:
    """Return the paper's last bound, (D,): w_i(0) / (log T + e^{w_inv(0) + Σ w_j(0)} / T - Σ w_j(0)) > 0."""
    _assume(start)
    horizon, total = checks.positive(horizon, "T"), start.w_sp.sum()
    most = np.log(horizon) + np.exp(start.w_inv + total) / horizon - total
    return np.asarray(start.w_sp / most)


def certain(start: Start, t: ArrayLike) -> Trajectory:
    """Return the flow at p = 1 in closed form: all weights grow by log(1 + (D+1) t L(0)) / (D+1)."""
    t = _times(t)
    loss = np.exp(-start.w_inv - start.w_sp.sum())
    growth = np.log1p((start.d + 1) * t * loss) / (start.d + 1)
    return Trajectory(t, start.w_inv + growth, start.w_sp + growth[:, None])


def _velocity(w: Array, p: float) -> Array:
    inv, sp = w[0], w[1:]
    share = np.concatenate([[1.0], _h(sp, p) / _g(sp, p)])
    return np.asarray(np.exp(np.log(_g(sp, p)).sum() - inv) * share)


def _jacobian(w: Array, p: float) -> Array:
    """Return ∂ẇ/∂w, from ẇ = L (1, r_1, ..., r_D), r = h/g, ∂log L/∂w = (-1, -r), ∂r_i/∂w_i = r_i² - 1."""
    speed, r = _velocity(w, p), _h(w[1:], p) / _g(w[1:], p)
    change = np.diag(np.concatenate([[0.0], r**2 - 1]))
    return np.asarray(np.outer(speed, -np.concatenate([[1.0], r])) + speed[0] * change)


def _g(w: Array, p: float) -> Array:
    return p * np.exp(-w) + (1 - p) * np.exp(w)


def _h(w: Array, p: float) -> Array:
    return p * np.exp(-w) - (1 - p) * np.exp(w)


def _times(t: ArrayLike) -> Array:
    t = checks.finite(t, "t")
    if t.ndim != 1 or not len(t) or t[0] < 0 or np.any(np.diff(t) <= 0):
        raise ValueError("t must be a list of increasing times that are not negative.")
    return t


def _assume(start: Start) -> None:
    if not start.assumed:
        raise ValueError(
            "Proposition 1 needs w_inv(0) > 0 and every w_i(0) between 0 and ½ log(p/(1-p)) = "
            f"{float(w_limit(start.p)):.4g}, not w_inv(0) = {start.w_inv:g}, w_i(0) from "
            f"{start.w_sp.min():g} to {start.w_sp.max():g}."
        )
