"""How often an audit finds shortcuts that were planted into a user's own images.

power_measurement.py plants and audits. A planted shortcut counts as found if the verdict is a shortcut and at
least half of the conflicting images are flagged, so that another shortcut of the same images does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from ..data.benchmarks.planted import SIZED_KINDS
from ..errors import UsageError
from .statistics import wilson

KINDS = tuple(SIZED_KINDS)
RATES = (0.005, 0.02, 0.1)  # shares of conflicting images
LOWEST, HIGHEST = 0.001, 0.5
MOST_REPEATS = 1000
USUAL_REPEATS = (2, 10)  # fewest and most, if the user does not choose a number
USUAL_SECONDS = 3600.0  # time that these repeats may take
FLAGGED = 0.5  # share of the conflicting images that must be flagged


@dataclass(frozen=True)
class PowerPlan:
    """The shortcuts to plant: kinds, shares of conflicting images (`rates`), and repeats of each.

    If `repeats` is 0, there are as many as the usual time allows.
    """

    kinds: tuple[str, ...] = KINDS
    rates: tuple[float, ...] = RATES
    repeats: int = 0

    def __post_init__(self) -> None:
        if unknown := [kind for kind in self.kinds if kind not in KINDS]:
            raise UsageError(
                f"there is no shortcut {unknown[0]!r} to plant. Choose from {', '.join(KINDS)}."
            )
        if not self.kinds or not self.rates:
            raise UsageError("there is nothing to plant. Give at least one kind and one rate.")
        for rate in self.rates:
            if not LOWEST <= rate <= HIGHEST:
                raise UsageError(
                    f"a share of {100 * rate:g} % conflicting images cannot be planted. Give a rate from "
                    f"{100 * LOWEST:g} to {100 * HIGHEST:g} %."
                )
        if not 0 <= self.repeats <= MOST_REPEATS:
            raise UsageError(f"{self.repeats} repeats are not possible. Give 1 to {MOST_REPEATS}.")

    @property
    def cells(self) -> int:
        return len(self.kinds) * len(self.rates)

    def cases(self) -> list[PlantedCase]:
        """Return every shortcut to plant; after each repeat of all kinds and rates the table is complete."""
        repeats = range(self.repeats)
        return [PlantedCase(k, r, n) for n, r, k in product(repeats, self.rates, self.kinds)]


@dataclass(frozen=True)
class PlantedCase:
    """One shortcut to plant."""

    kind: str
    rate: float
    repeat: int


@dataclass(frozen=True)
class PlantedAudit:
    """The audit of images with a planted shortcut."""

    kind: str
    rate: float
    repeat: int
    verdict: str
    exceptions: int
    flagged: float  # share of the conflicting images that the audit flags
    seconds: float

    @property
    def is_found(self) -> bool:
        return self.verdict == "shortcut" and self.flagged >= FLAGGED


@dataclass(frozen=True)
class PowerRow:
    """How often a kind of shortcut with a share of conflicting images is found."""

    kind: str
    rate: float
    exceptions: int
    found: int
    repeats: int
    interval: tuple[float, float]  # of the share found, 95 %


@dataclass(frozen=True)
class Power:
    """Everything that was planted and found."""

    images: int
    classes: int  # classes that shortcuts were planted into
    all_classes: int
    audits: tuple[PlantedAudit, ...]

    def rows(self) -> list[PowerRow]:
        """Count the shortcuts found of each kind and rate."""
        cells = dict.fromkeys((each.kind, each.rate) for each in self.audits)
        return [self._row(kind, rate) for kind, rate in sorted(cells, key=_order)]

    def _row(self, kind: str, rate: float) -> PowerRow:
        here = [each for each in self.audits if (each.kind, each.rate) == (kind, rate)]
        found = sum(each.is_found for each in here)
        interval = wilson(found, len(here))
        return PowerRow(kind, rate, here[0].exceptions, found, len(here), interval)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "rows": [asdict(row) for row in self.rows()]}

    @staticmethod
    def from_json(about: Mapping[str, Any]) -> Power:
        """Read what `as_json` wrote."""
        audits = tuple(PlantedAudit(**each) for each in about["audits"])
        return Power(about["images"], about["classes"], about["all_classes"], audits)


def _order(cell: Sequence[Any]) -> tuple[int, float]:
    return KINDS.index(cell[0]), cell[1]
