"""Look at the border of the images alone, where no shortcut was found in the whole of them.

The first training is a miner on one half. Where it errs too often the border gives nothing away, and the
look is over: an ordinary audit without a shortcut pays one training more.
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


def look_at_borders(crossfits: Sequence[CrossFit], together: int) -> list[CrossFit | None]:
    """Train the networks that see borders alone, where wanted, and add their evidence to each crossfit."""
    looks = [
        CrossFit(each.context, border_only=True) if wants_border(each.evidence()) else None
        for each in crossfits
    ]
    open_ = [look for look in looks if look is not None]
    for half in range(HALVES):
        train_all([HalfTraining(look, find(MINER), half) for look in open_], together)
        open_ = [look for look in open_ if _error(look) <= THRESHOLDS.error]
    open_ = [look for look in open_ if look.suspects.conflict.sum() >= THRESHOLDS.fewest]
    for name in (DEPRIVED, CENTRE):
        train_all([each for look in open_ for each in half_trainings(look, [find(name)])], together)
    for crossfit, look in zip(crossfits, looks, strict=True):
        crossfit.border = _evidence(look) if look is not None else None
    return looks


def _error(look: CrossFit) -> float:
    """Return the error of the miners that are trained so far."""
    wrong = total = 0
    for half in range(HALVES):
        if (MINER, half) in look.artifacts:
            unseen = look.half_of != half
            predicted = look.artifacts[MINER, half].tensors["predicted"]
            wrong += int((predicted != look.targets[unseen]).sum())
            total += len(predicted)
    return wrong / total


def _evidence(look: CrossFit) -> BorderEvidence:
    error = _error(look)
    if (CENTRE, 0) not in look.artifacts:
        return BorderEvidence(error)
    seen = look.evidence()
    separation = seen.networks[CENTRE].separation
    return BorderEvidence(error, seen.suspects, seen.clear, seen.full, separation)
