"""Numbers of recorded runs for the answers of `gaps`, and how they are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .item import Result
from .main_item import SCORE
from .pages import number


def score(result: Result, network: str = "debiased") -> float | None:
    """Return the mean unbiased accuracy in per cent, or None without runs."""
    found = result.mean(network, SCORE[1])
    return None if found is None else 100 * found


def last_step(result: Result) -> list[float]:
    """Return the unbiased accuracy of each run's last scored step."""
    iterates = [run.get("extras", {}).get("iterates") for run in result.runs]
    return [each[max(each, key=int)]["unbiased"] for each in iterates if each]


def mean(shares: list[float]) -> float:
    """Return the mean of shares in per cent, 0 if there are none."""
    return 100 * sum(shares) / len(shares) if shares else 0.0


def numbers(values: Iterable[float | None]) -> list[float]:
    """Return values that are known to be numbers."""
    return [value for value in values if value is not None]


def listed(values: Iterable[float]) -> str:
    """Format numbers as in "84.3 / 95.0"."""
    return " / ".join(number(value) for value in values)


def paired(values: Mapping[str, float | None]) -> str:
    """Format numbers by setting as in "61.3 at 0.1, 43.0 at 0.01"."""
    return ", ".join(f"{number(value)} at {name}" for name, value in values.items())
