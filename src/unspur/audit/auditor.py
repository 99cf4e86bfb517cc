"""Audit data: is there a shortcut, and which samples contradict it?

Small networks are trained on either half of the training split and asked about the other
(half_training.py). evidence.py turns their answers into numbers, questions.py has the rule of the verdict.
Networks are trained phase by phase, later ones only where they can change the verdict: where the miner
settles it alone, no other network is trained. Where no shortcut is found, border_look.py looks at the border
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..stages.context import Context
from ..store import Artifact
from . import audit_networks
from .border_look import look_at_borders
from .crossfit import CrossFit
from .half_training import half_trainings, train_all
from .result import Audit, TrainingRecord
from .verdict import is_open, judge, rests_on_border

TOGETHER = 16  # trainings side by side on a GPU


def audit(context: Context) -> Audit:
    """Audit the training split of a context."""
    return audit_together([context], together=TOGETHER)[0]


def audit_together(contexts: Sequence[Context], *, together: int = 1) -> list[Audit]:
    """Audit several contexts of one store; on a GPU, train up to `together` networks at a time."""
    crossfits = [CrossFit(context) for context in contexts]
    for number, phase in enumerate(audit_networks.phases(), 1):
        open_ = [each for each in crossfits if number == 1 or is_open(each.evidence(), number)]
        train_all(
            [training for each in open_ for training in half_trainings(each, phase)], together
        )
    looks = look_at_borders(crossfits, together)
    return [_result(crossfit, look) for crossfit, look in zip(crossfits, looks, strict=True)]


def _result(crossfit: CrossFit, look: CrossFit | None) -> Audit:
    """Return what was found; the suspects are those of the border where the verdict rests on it."""
    evidence = crossfit.evidence()
    found = look if look is not None and rests_on_border(evidence) else crossfit
    names = dict.fromkeys(name for name, _ in found.artifacts)
    trainings = _records(crossfit) + (_records(look, "border: ") if look else ())
    return Audit(
        finding=judge(evidence),
        evidence=evidence,
        suspects=found.flagged(),
        mistakes=found.suspects.conflict,
        predictions={name: found.predictions(name) for name in names},
        trainings=trainings,
    )


def _records(crossfit: CrossFit, prefix: str = "") -> tuple[TrainingRecord, ...]:
    records = (_record(*key, artifact) for key, artifact in crossfit.artifacts.items())
    return tuple(replace(each, network=prefix + each.network) for each in records)


def _record(name: str, half: int, artifact: Artifact) -> TrainingRecord:
    seconds = artifact.about["seconds"] / artifact.about["beside"]
    return TrainingRecord(name, half, round(seconds, 3), artifact.path.name)
