"""Format numbers for sentences and tables."""

from __future__ import annotations

import re


def percent(value: float | None, digits: int = 1) -> str:
    """Format a share; the percent sign stays on the line of its number."""
    return "–" if value is None else f"{100 * value:.{digits}f}\N{NO-BREAK SPACE}%"


def signed(value: float) -> str:
    """Format a number with two digits, a typographic minus, and no negative zero."""
    return f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")


def unbroken(text: str) -> str:
    """Keep powers of ten, as in 4e-09, on one line."""
    return re.sub(r"(?<=\de)-(?=\d)", "\N{NON-BREAKING HYPHEN}", text)


def p_value(value: float) -> str:
    """Format a p-value with one significant digit."""
    return unbroken(f"p = {value:.1g}" if value > 0 else "p < 1e-300")
