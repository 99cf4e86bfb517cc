"""The thresholds of an audit's verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """The values at which the answers to the questions of the verdict change (questions.py)."""

    gain: float  # smallest gain of a network that shows a shortcut
    reliance: float  # smallest reliance on what a view hides that shows a shortcut
    resting: float  # smallest share of confident errors for reliance to count
    insistence: float  # smallest share of confident errors that hard samples alone cannot explain
    doubted: float  # smallest share of confident errors for separation to count
    together: float  # smallest sum of this share and separation that shows a shortcut
    mixed: float  # separation below which suspects look like wrong labels
    p_value: float  # largest p-value of a significant number, corrected for the choice of a network
    fewest: int  # smallest number of suspects for a verdict
    fewest_full: int  # smallest number of confident errors (suspects with a full margin)
    error: float  # largest error of a miner that has found an easy feature
    learned: float  # largest error of a miner that has learned anything, over `Evidence.blind`
    border_error: float  # largest error of a miner that sees only the border
    border_insistence: float  # its smallest share of confident errors
    border_together: float  # its smallest sum of this share and separation that shows a shortcut
    wrong_labels: float  # share of wrong labels among a miner's most confident mistakes
    few_images: int  # with fewer images, hard ones can look like images that contradict a shortcut
    few_error: float  # largest error of a miner that has learned nearly all of so few images
    few_insistence: (
        float  # share of confident errors that hard images alone do not reach in so few images
    )
    # With so many suspects, the smallest gain that counts is significant, unless many predictions change.
    # With fewer, a gain may be missed, so that in few images nothing shows that they are only hard.
    few_suspects: int

    def separation(self, insistence: float) -> float:
        """Return the smallest separation that shows a shortcut; it falls as `insistence` rises.

        `insistence` is the share of confident errors. If it is larger, fewer of them can be hard samples.
        """
        return max(self.mixed, self.together - insistence)

    def border_separation(self, insistence: float) -> float:
        """Return the smallest separation by which networks that see only the border show a shortcut."""
        return max(self.mixed, self.border_together - insistence)

    @staticmethod
    def from_record(table: Mapping[str, float]) -> Thresholds:
        """Read recorded thresholds; those that an earlier version did not have are never reached."""
        return Thresholds(**{**BEFORE, "doubted": table["insistence"], **table})  # type: ignore[arg-type]


# Thresholds that earlier versions did not have: their questions were not asked.
BEFORE = dict.fromkeys(
    ("border_error", "border_insistence", "border_together", "wrong_labels"), math.inf
) | {"few_images": 0, "few_error": math.inf, "few_insistence": 0.0, "few_suspects": 0}

# Chosen on digits and CIFAR-10, 10,000 images each, those for few images on 900 (docs/audit.md gives the
# reason for each).
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
    border_error=0.15,
    border_insistence=0.6,
    border_together=1.4,
    wrong_labels=0.38,
    few_images=1000,
    few_error=0.15,
    few_insistence=0.6,
    few_suspects=100,
)
