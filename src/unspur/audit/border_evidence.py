"""The evidence of a second look, at the border of the images alone.

A network that sees everything may learn the object first and never follow a small sign at the border, though
the sign gives the class away. So where nothing else was found, a miner is trained that sees the border alone.
If it is right on most images, the question is what its mistakes are. Hard images have small margins, so its
*insistence* is low. Exceptions to a shortcut in the border are insisted on, and a network that sees only the
centre doubts the answer (*separation*). Wrong labels are insisted on too, but nobody doubts them.
"""

from __future__ import annotations

from dataclasses import dataclass

from .statistics import Statistic


@dataclass(frozen=True)
class BorderEvidence:
    """What networks say that see the border alone."""

    error: float  # of the miner
    suspects: int = 0
    clear: int = 0  # suspects to which the deprived network clearly gives the miner's answer
    full: int = 0  # of these, with a full margin
    separation: Statistic | None = None  # by a network that sees the centre alone

    @property
    def insistence(self) -> float:
        return self.full / self.clear if self.clear else 0.0
