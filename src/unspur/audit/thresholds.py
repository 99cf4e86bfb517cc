"""Where the verdict of an audit turns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """Where the verdict turns."""

    gain: float  # of a network, from which suspects are exceptions to a shortcut
    reliance: float  # on what is hidden, likewise
    resting: float  # insistence from which reliance counts
    insistence: float  # from which suspects are more than hard samples
    together: float  # insistence + separation, from which insisted ones are exceptions, too
    mixed: float  # separation below which they are wrong labels
    p_value: float  # up to which chance is ruled out, all networks taken together
    fewest: int  # suspects to judge by
    fewest_full: int  # of them, with a full margin
    error: float  # of a miner that has found nothing that gives the class away
    learned: float  # share of a blind guess's error above which a miner has learned nothing

    def separation(self, insistence: float) -> float:
        """Where separation turns: the more suspects are insisted on, the less can be due to hard samples."""
        return max(self.mixed, self.together - insistence)


# Chosen on digits and CIFAR-10, 10,000 images each (docs/audit.md gives the reason for each).
THRESHOLDS = Thresholds(
    gain=0.15,
    reliance=0.6,
    resting=0.25,
    insistence=0.4,
    together=1.2,
    mixed=0.6,
    p_value=0.001,
    fewest=10,
    fewest_full=5,
    error=0.35,
    learned=0.9,
)
