"""Find where the paper's inequality fails, or holds trivially.

It needs w_inv > 0 and a mean μ = E[O | Y = 1] / w_inv that is not negative. The two-sided Hoeffding
inequality bounds |O - μ|; if μ is negative, an O far below 0 is close to μ and is not excluded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import bounds as bounding
from . import checks
from .checks import ROUNDING, Array
from .environments import biased
from .error_rates import exact_error
from .studies import Numbers, Settings
from .sweep import Case, sweep


def corners(s: Settings) -> Numbers:
    """Return where the inequality fails: bound and error over α of both signs, and over a grid."""
    ratios = np.linspace(-1, 1, 4 * (s.points - 1) + 1)
    π = np.ones(s.d + 1)
    errors = [exact_error(np.r_[1.0, np.full(s.d, each)], π, biased(s.p)) for each in ratios]
    grid = ratios[:, None] * np.ones(s.d)
    bound = bounding.train_bound(π, grid, s.p)
    fails = np.array([error.below for error in errors]) > bound + ROUNDING
    return {
        "d": s.d,
        "p": s.p,
        "ratio": ratios.tolist(),
        "bound": bound.tolist(),
        "one_sided": bounding.one_sided_bound(π, grid, s.p).tolist(),
        "error": [error.below for error in errors],
        "mean_is_negative_below": -1 / (s.d * (2 * s.p - 1)),
        "informative_up_to": informative_ratios(1.0),
        "fails_up_to": float(ratios[fails].max()) if fails.any() else None,
        "examples": _examples(),
        "grid": _grid(sweep(s.widths, seed=s.seed)),
    }


def surely_fails(π: ArrayLike, α: ArrayLike, agree: ArrayLike) -> NDArray[np.bool_]:
    """Return whether the error must exceed the paper's bound: μ < 0 and 2 μ² / (4 Σ α_i² + 1) > log 3.

    In this case Hoeffding's inequality gives P(O < 0) ≥ 1 - e^{-x}, and 2 e^{-x} < 1 - e^{-x} for x > log 3.
    """
    μ = bounding.mean_output(π, α, agree)
    return np.asarray((μ < 0) & (2 * μ**2 / bounding.squared_ranges(α) > np.log(3)))


def informative_ratios(π_inv: float) -> float:
    """Return the largest Σ α_i² at which the test bound is at most ½ (random guessing), or 0 if none is."""
    π_inv = float(checks.probability(π_inv, "π_inv"))
    return max(float(2 * π_inv**2 / np.log(4) - 1) / 4, 0.0)


def _examples() -> list[Numbers]:
    """Return minimal examples of all special cases."""
    one = np.ones(2)
    return [
        _example("negative mean", [1.0, -5.0, -5.0, -5.0], np.ones(4), "spurious weights outvote"),
        _example("negative w_inv", [-1.0, 0.0], one, "every answer is wrong; α = 0 hides it"),
        _example("all removed", [1.0, 1.0], np.zeros(2), "O = 0 always: P(O < 0) = 0, ℓ = ½"),
        _example("large α, removed", [1.0, 2.0], np.array([1.0, 0.0]), "no error"),
        _example("large α, kept", [1.0, 2.0], one, "the bound falls, the error rises"),
    ]


def _example(name: str, w: list[float], π: Array, note: str, *, p: float = 0.95) -> Numbers:
    α = np.array(w[1:]) / w[0]
    error = exact_error(w, π, biased(p))
    bound = float(bounding.train_bound(π, α, p))
    mean = float(bounding.mean_output(π, α, p))
    return {
        "name": name,
        "w": w,
        "pi": π.tolist(),
        "p": p,
        "note": note,
        "mean": mean,
        "below": error.below,
        "tie": error.tie,
        "loss": error.loss,
        "bound": bound,
        "holds": bool(error.below <= bound + ROUNDING),
    }


def _grid(cases: list[Case]) -> Numbers:
    """Return the sweep as columns, and counts of cases."""
    failing = [case for case in cases if not case.holds]
    columns: dict[str, list[Any]] = {
        "d": [case.d for case in cases],
        "p": [case.p for case in cases],
        "phi": [case.φ for case in cases],
        "masks": [case.masks for case in cases],
        "ratios": [case.ratios for case in cases],
        "mean": [case.mean for case in cases],
        "below": [case.error.below for case in cases],
        "tie": [case.error.tie for case in cases],
        "bound": [case.bound for case in cases],
    }
    return {
        "cases": len(cases),
        "negative_mean": sum(case.mean < 0 for case in cases),
        "ties": sum(case.error.tie > 0 for case in cases),
        "says_nothing": sum(case.bound >= 1 for case in cases),
        "fails": len(failing),
        "fails_where_mean_is_not_negative": sum(case.mean >= 0 for case in failing),
        "fails_with_ties": sum(not case.holds_with_ties for case in cases),
        "fails_with_ties_where_mean_is_not_negative": sum(
            not case.holds_with_ties and case.mean >= 0 for case in cases
        ),
        "one_sided_fails": sum(not case.holds_one_sided for case in cases),
        "columns": columns,
    }
