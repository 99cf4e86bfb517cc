"""Search for a shortcut in the border of the images, if none was found in the whole images.

The first training is a miner on one half. If it makes too many mistakes, the border does not predict the
class, and the search ends: most audits without a shortcut need only one training more.
"""

from __future__ import annotations

from collections.abc import Sequence

from .audit_networks import CENTRE, DEPRIVED, MINER, find
from .border_evidence import BorderEvidence
from .crossfit import CrossFit
from .half_training import HalfTraining, half_trainings, train_all
from .halves import HALVES
from .thresholds import THRESHOLDS
from .verdict import wants_border


def search_borders(crossfits: Sequence[CrossFit], together: int) -> list[CrossFit | None]:
    """Train networks that see only the border, and add their evidence to each crossfit.

    Return the crossfits of these networks; None if they cannot change the verdict.
    """
    at_border = [
        CrossFit(each.context, border_only=True) if wants_border(each.evidence()) else None
        for each in crossfits
    ]
    left = [each for each in at_border if each is not None]
    for half in range(HALVES):
        train_all([HalfTraining(each, find(MINER), half) for each in left], together)
        left = [each for each in left if _error(each) <= THRESHOLDS.border_error]
    left = [each for each in left if each.suspects.conflict.sum() >= THRESHOLDS.fewest]
    for name in (DEPRIVED, CENTRE):
        train_all([t for each in left for t in half_trainings(each, [find(name)])], together)
    for crossfit, other in zip(crossfits, at_border, strict=True):
        crossfit.border = _evidence(other) if other is not None else None
    return at_border


def _error(crossfit: CrossFit) -> float:
    """Return the error of the miners that have been trained so far."""
    wrong = total = 0
    for half in range(HALVES):
        if (MINER, half) in crossfit.artifacts:
            unseen = crossfit.half_of != half
            predicted = crossfit.artifacts[MINER, half].tensors["predicted"]
            wrong += int((predicted != crossfit.targets[unseen]).sum())
            total += len(predicted)
    return wrong / total


def _evidence(crossfit: CrossFit) -> BorderEvidence:
    error = _error(crossfit)
    if (CENTRE, 0) not in crossfit.artifacts:
        return BorderEvidence(error)
    seen = crossfit.evidence()
    separation = seen.networks[CENTRE].separation
    return BorderEvidence(error, seen.suspects, seen.clear, seen.full, separation)
