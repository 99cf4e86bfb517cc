"""Format numbers for sentences and tables."""

from __future__ import annotations

import re

MOST_DIGITS = 6


def percent(value: float | None, digits: int = 1) -> str:
    """Format a share in percent; the percent sign stays on the line of its number."""
    return "–" if value is None else f"{100 * value:.{digits}f}\N{NO-BREAK SPACE}%"


def signed(value: float, digits: int = 2) -> str:
    """Format a number with some digits, a typographic minus, and no negative zero."""
    zero = f"{0:.{digits}f}"
    return f"{value:.{digits}f}".replace(f"-{zero}", zero).replace("-", "−")


def digits_apart(value: float, threshold: float, digits: int = 2) -> int:
    """Return how many digits are needed to see on which side of a threshold a number lies."""
    while digits < MOST_DIGITS and value != threshold and _alike(value, threshold, digits):
        digits += 1
    return digits


def _alike(value: float, threshold: float, digits: int) -> bool:
    return f"{value:.{digits}f}" == f"{threshold:.{digits}f}"


def beside(value: float, threshold: float) -> str:
    """Format a number with enough digits to differ visibly from a threshold."""
    return signed(value, digits_apart(value, threshold))


def percent_beside(value: float, threshold: float) -> str:
    """Format a share in percent with enough digits to differ visibly from a threshold."""
    return percent(value, digits_apart(100 * value, 100 * threshold, digits=1))


def unbroken(text: str) -> str:
    """Keep numbers such as 4e-09 on one line."""
    return re.sub(r"(?<=\de)-(?=\d)", "\N{NON-BREAKING HYPHEN}", text)


def p_value(value: float) -> str:
    """Format a p-value with one significant digit."""
    return unbroken(f"p = {value:.1g}" if value > 0 else "p < 1e-300")
