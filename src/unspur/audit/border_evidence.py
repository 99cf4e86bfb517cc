"""The evidence of networks that see only the border of the images.

A network that sees the whole image may learn the object first and ignore a small sign at the border, even if
the sign predicts the class. So if no shortcut was found, a miner is trained that sees only the border. If it
is right on most images, its mistakes have one of three causes. Hard images have small margins, so few
of them are *confident errors*. Images that contradict a shortcut in the border have full margins, and a
network that sees only the centre doubts the answer (*separation*). Wrong labels have full margins too, but no
network doubts the answer. evidence.py defines these numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from .statistics import Statistic


@dataclass(frozen=True)
class BorderEvidence:
    """The numbers given by networks that see only the border."""

    error: float  # of the miner
    suspects: int = 0
    clear: int = 0  # suspects to which the deprived network clearly gives the miner's answer
    full: int = 0  # of these, with a full margin
    separation: Statistic | None = None  # by a network that sees only the centre

    @property
    def insistence(self) -> float:
        """Return the share of confident errors."""
        return self.full / self.clear if self.clear else 0.0
