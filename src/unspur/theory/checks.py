"""Check parameters and return them as arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

ROUNDING = 1e-12


def biased_p(p: ArrayLike) -> Array:
    """Check p in (0.5, 1]: how often a spurious bit agrees with the label in biased data."""
    p = np.asarray(p, dtype=np.float64)
    if not np.all((p > 0.5) & (p <= 1)):
        raise ValueError(
            f"p must be above 0.5 and at most 1, not {_first(p, (p > 0.5) & (p <= 1))}."
        )
    return p


def probability(value: ArrayLike, name: str) -> Array:
    value = np.asarray(value, dtype=np.float64)
    inside = (value >= 0) & (value <= 1)
    if not np.all(inside):
        raise ValueError(f"{name} must be between 0 and 1, not {_first(value, inside)}.")
    return value


def mixing(φ: ArrayLike, p: Array) -> Array:
    """Check the share φ of debiasing samples: at most 1 - 1/(2p), where the bits become fair coins."""
    φ = np.asarray(φ, dtype=np.float64)
    limit = 1 - 1 / (2 * p)
    inside = (φ >= 0) & (φ <= limit + ROUNDING)
    if not np.all(inside):
        bad, most = np.broadcast_arrays(φ, limit)
        where = np.unravel_index(np.argmin(inside), inside.shape)
        raise ValueError(
            f"φ must be between 0 and 1 - 1/(2p) = {most[where]:.6g}, not {bad[where]:.6g}: "
            "above this value the bits would be biased the other way."
        )
    return φ


def count(value: int, name: str, *, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number, {least} or more, not {value!r}.")
    return int(value)


def finite(value: ArrayLike, name: str) -> Array:
    value = np.asarray(value, dtype=np.float64)
    if not np.all(np.isfinite(value)):
        raise ValueError(f"{name} must be finite, not {_first(value, np.isfinite(value))}.")
    return value


def vector(value: ArrayLike, name: str) -> Array:
    """Check that an array is finite and has at least one entry on its last axis."""
    value = finite(value, name)
    if value.ndim < 1 or value.shape[-1] < 1:
        raise ValueError(
            f"{name} must have at least one entry on its last axis, not {value.shape}."
        )
    return value


def keep(π: ArrayLike, width: int) -> Array:
    """Check the mask probabilities (π_inv, π_sp,1 ... π_sp,D): `width` = D + 1 on the last axis."""
    π = probability(π, "π")
    if π.ndim < 1 or π.shape[-1] != width:
        raise ValueError(
            f"π must have {width} entries on its last axis (the invariant bit, then "
            f"{width - 1} spurious ones), not shape {π.shape}."
        )
    return π


def positive(value: float, name: str) -> float:
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number, not {value!r}.")
    return float(value)


def _first(value: Array, valid: NDArray[np.bool_]) -> float:
    return float(value.reshape(-1)[np.argmin(valid.reshape(-1))])
