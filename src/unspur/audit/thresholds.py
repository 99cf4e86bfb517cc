"""The thresholds of an audit's verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """Where the answers to the questions of the verdict turn (questions.py)."""

    gain: float  # from which the gain of a network shows a shortcut
    reliance: float  # from which reliance on what a view hides shows a shortcut
    resting: float  # least insistence for reliance to count
    insistence: float  # from which suspects are more than hard samples
    doubted: float  # least insistence for separation to count
    together: float  # least insistence + separation that shows a shortcut
    mixed: float  # separation below which suspects look like wrong labels
    p_value: float  # largest p-value of a significant number, corrected for the choice of a network
    fewest: int  # suspects that a verdict needs
    fewest_full: int  # insisted suspects (full margin) that insistence needs
    error: float  # largest error of a miner that has found something easy
    learned: (
        float  # largest error of a miner that has learned anything, as a share of a blind guess's
    )
    border_insistence: float  # least insistence of networks that see the border alone
    border_together: float  # least insistence + separation of these that shows a shortcut
    wrong_labels: float  # share of a miner's surest mistakes that look like wrong labels

    def separation(self, insistence: float) -> float:
        """Return the separation that shows a shortcut; it falls as insistence rises.

        The more suspects are insisted on, the fewer of them can be hard samples.
        """
        return max(self.mixed, self.together - insistence)

    @staticmethod
    def from_record(table: Mapping[str, float]) -> Thresholds:
        """Read recorded thresholds; what an earlier version did not ask never turns the verdict."""
        return Thresholds(**{**BEFORE, "doubted": table["insistence"], **table})  # type: ignore[arg-type]


# Of questions that earlier versions did not ask.
BEFORE = dict.fromkeys(("border_insistence", "border_together", "wrong_labels"), math.inf)

# Chosen on digits and CIFAR-10, 10,000 images each (docs/audit.md gives the reason for each).
THRESHOLDS = Thresholds(
    gain=0.15,
    reliance=0.55,
    resting=0.25,
    insistence=0.4,
    doubted=0.35,
    together=1.2,
    mixed=0.6,
    p_value=0.001,
    fewest=10,
    fewest_full=5,
    error=0.35,
    learned=0.9,
    border_insistence=0.6,
    border_together=1.4,
    wrong_labels=0.38,
)
