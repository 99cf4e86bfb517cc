"""Compare bound and exact error over a grid that includes all extremes of signs and masks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from . import bounds
from .checks import ROUNDING, Array
from .environments import biased, fair, mixture, φ_limit
from .error_rates import Error, exact_error


@dataclass(frozen=True)
class Case:
    """One point of the grid."""

    d: int
    p: float
    φ: float | None  # None is the test environment
    masks: str
    ratios: str
    mean: float  # μ
    error: Error
    bound: float
    one_sided: float

    @property
    def holds(self) -> bool:
        """Whether P(O < 0 | Y = 1) is at most the paper's bound."""
        return self.error.below <= self.bound + ROUNDING

    @property
    def holds_with_ties(self) -> bool:
        """Whether P(O ≤ 0 | Y = 1) is at most the paper's bound."""
        return self.error.at_most <= self.bound + ROUNDING

    @property
    def holds_one_sided(self) -> bool:
        """Whether P(O ≤ 0 | Y = 1) is at most the one-sided bound."""
        return self.error.at_most <= self.one_sided + ROUNDING


def sweep(
    widths: Sequence[int] = (1, 2, 3, 6, 10, 15),
    ps: Sequence[float] = (0.51, 0.6, 0.75, 0.9, 0.99, 1.0),
    shares: Sequence[float] = (0.0, 0.5, 1.0),
    *,
    seed: int = 0,
) -> list[Case]:
    """Return every case: training and mixture (`shares` of the limit of φ), and the test environment."""
    rng = np.random.default_rng(seed)
    return [
        case
        for d in widths
        for masks, π in mask_patterns(d, rng).items()
        for ratios, α in ratio_patterns(d, rng).items()
        for case in _cases(d, masks, π, ratios, α, ps, shares)
    ]


def mask_patterns(d: int, rng: np.random.Generator) -> dict[str, Array]:
    """Return mask probabilities (d + 1,): extremes and values between."""
    inv, spurious = np.eye(1, d + 1)[0], 1 - np.eye(1, d + 1)[0]
    return {
        "all removed": np.zeros(d + 1),
        "all kept": np.ones(d + 1),
        "invariant only": inv,
        "spurious only": spurious,
        "halves": np.full(d + 1, 0.5),
        "invariant rarely": 0.1 * inv + 0.9 * spurious,
        "random": rng.random(d + 1),
    }


def ratio_patterns(d: int, rng: np.random.Generator) -> dict[str, Array]:
    """Return ratios α (d,): zero, small, large, negative, of mixed sign, and some that cancel exactly."""
    alternating = np.where(np.arange(d) % 2 == 0, 1.0, -1.0)
    return {
        "zero": np.zeros(d),
        "tiny": np.full(d, 1e-6),
        "small": np.full(d, 0.1),
        "equal": np.ones(d),
        "large": np.full(d, 5.0),
        "slightly negative": np.full(d, -0.5 / d),
        "negative": -np.ones(d),
        "large negative": np.full(d, -5.0),
        "alternating": alternating,
        "one giant": 20.0 * np.eye(1, d)[0] + 0.1,
        "random": rng.normal(size=d),
        "random positive": rng.random(d),
    }


def _cases(
    d: int,
    masks: str,
    π: Array,
    ratios: str,
    α: Array,
    ps: Sequence[float],
    shares: Sequence[float],
) -> Iterator[Case]:
    w = np.concatenate([[1.0], α])
    for p in ps:
        for φ in (share * float(φ_limit(p)) for share in shares):
            environment = mixture(p, φ) if φ else biased(p)
            yield Case(
                d,
                p,
                φ,
                masks,
                ratios,
                mean=float(bounds.mean_output(π, α, environment.agree)),
                error=exact_error(w, π, environment),
                bound=float(bounds.mixture_bound(π, α, p, φ)),
                one_sided=float(bounds.one_sided_bound(π, α, environment.agree)),
            )
    yield Case(
        d,
        0.5,
        None,
        masks,
        ratios,
        mean=float(bounds.mean_output(π, α, 0.5)),
        error=exact_error(w, π, fair()),
        bound=float(bounds.test_bound(π, α)),
        one_sided=float(bounds.one_sided_bound(π, α, 0.5)),
    )
