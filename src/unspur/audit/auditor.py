"""Audit data: is there a shortcut, and which samples contradict it?

Small networks are trained on one half of the training split and predict the other half (half_training.py).
evidence.py turns their predictions into numbers, and questions.py has the rule of the verdict. Networks are
trained phase by phase, a later phase only if it can change the verdict: if the miner alone decides it, no
other network is trained. If no shortcut is found, border_look.py trains networks that see only the border.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..stages.context import Context
from ..store import Artifact
from . import audit_networks
from .border_look import search_borders
from .crossfit import CrossFit
from .half_training import half_trainings, train_all
from .result import Audit, TrainingRecord
from .verdict import is_open, judge, rests_on_border

TOGETHER = 16  # trainings at the same time on a GPU


def audit(context: Context) -> Audit:
    """Audit the training split of a context."""
    return audit_together([context], together=TOGETHER)[0]


def audit_together(contexts: Sequence[Context], *, together: int = 1) -> list[Audit]:
    """Audit several contexts of one store; on a GPU, train up to `together` networks at a time."""
    crossfits = [CrossFit(context) for context in contexts]
    for number, phase in enumerate(audit_networks.phases(), 1):
        undecided = [each for each in crossfits if number == 1 or is_open(each.evidence(), number)]
        train_all(
            [training for each in undecided for training in half_trainings(each, phase)], together
        )
    at_border = search_borders(crossfits, together)
    return [_result(crossfit, other) for crossfit, other in zip(crossfits, at_border, strict=True)]


def _result(crossfit: CrossFit, at_border: CrossFit | None) -> Audit:
    """Return the audit; its suspects are those of the border networks if the verdict rests on the border."""
    evidence = crossfit.evidence()
    decisive = at_border if at_border is not None and rests_on_border(evidence) else crossfit
    names = dict.fromkeys(name for name, _ in decisive.artifacts)
    trainings = _records(crossfit) + (_records(at_border, "border: ") if at_border else ())
    return Audit(
        finding=judge(evidence),
        evidence=evidence,
        suspects=decisive.flagged(),
        mistakes=decisive.suspects.conflict,
        predictions={name: decisive.predictions(name) for name in names},
        trainings=trainings,
    )


def _records(crossfit: CrossFit, prefix: str = "") -> tuple[TrainingRecord, ...]:
    records = (_record(*key, artifact) for key, artifact in crossfit.artifacts.items())
    return tuple(replace(each, network=prefix + each.network) for each in records)


def _record(name: str, half: int, artifact: Artifact) -> TrainingRecord:
    seconds = artifact.about["seconds"] / artifact.about["beside"]
    return TrainingRecord(name, half, round(seconds, 3), artifact.path.name)
