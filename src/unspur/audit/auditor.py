"""Audit data: is there a shortcut, and which samples contradict it?

Small networks are trained on either half of the training split and asked about the other
(half_training.py). evidence.py turns their answers into numbers, questions.py has the rule of the verdict.
Where the miner settles it alone, no other network is trained.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..stages.context import Context
from ..store import Artifact
from . import audit_networks
from .crossfit import CrossFit
from .half_training import half_trainings, train
from .result import Audit, TrainingRecord
from .verdict import judge

TOGETHER = 16  # trainings side by side on a GPU


def audit(context: Context) -> Audit:
    """Audit the training split of a context."""
    return audit_together([context], together=TOGETHER)[0]


def audit_together(contexts: Sequence[Context], *, together: int = 1) -> list[Audit]:
    """Audit several contexts of one store; on a GPU, train up to `together` networks at a time."""
    crossfits = [CrossFit(context) for context in contexts]
    for phase in audit_networks.phases():
        open_ = [crossfit for crossfit in crossfits if not crossfit.is_settled]
        wanted = [training for each in open_ for training in half_trainings(each, phase)]
        for training, artifact in zip(wanted, train(wanted, together), strict=True):
            training.crossfit.artifacts[training.network.name, training.half] = artifact
    return [_result(crossfit) for crossfit in crossfits]


def _result(crossfit: CrossFit) -> Audit:
    evidence, artifacts = crossfit.evidence(), crossfit.artifacts
    return Audit(
        finding=judge(evidence),
        evidence=evidence,
        suspects=crossfit.flagged(),
        mistakes=crossfit.suspects.conflict,
        predictions={name: crossfit.predictions(name) for name, half in artifacts if half == 0},
        trainings=tuple(_record(*key, artifact) for key, artifact in artifacts.items()),
    )


def _record(name: str, half: int, artifact: Artifact) -> TrainingRecord:
    seconds = artifact.about["seconds"] / artifact.about["beside"]
    return TrainingRecord(name, half, round(seconds, 3), artifact.path.name)
