"""The result of an audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from ..stages.suspects import Suspects
from .audit_networks import DEPRIVED
from .evidence import FULL_MARGIN, Evidence, Predictions
from .explanation import Explanation
from .power import Power
from .statistics import relative_margin
from .thresholds import THRESHOLDS
from .verdict import Finding


@dataclass(frozen=True)
class TrainingRecord:
    """One training of an audit: its time, and the artifact that holds it."""

    network: str
    half: int
    seconds: float  # its share of the time, if several were trained at once
    artifact: str


@dataclass(frozen=True, eq=False)
class Audit:
    """The result of an audit: the verdict, the numbers behind it, and a score and a flag for every sample."""

    finding: Finding
    evidence: Evidence
    suspects: Suspects  # flagged if the deprived network contradicts the label as well
    mistakes: Tensor  # samples that the miner gets wrong; the evidence calls all of them suspects
    predictions: Mapping[str, Predictions]  # of each network, in the order of samples
    trainings: tuple[TrainingRecord, ...]
    explanation: Explanation | None = None  # which properties predict suspects, if requested
    power: Power | None = None  # how often planted shortcuts are found, if requested

    def __repr__(self) -> str:
        return f"Audit({self.finding.full_text!r}, suspects={self.suspects!r})"

    @property
    def seconds(self) -> float:
        return sum(each.seconds for each in self.trainings)

    @property
    def insisted(self) -> Tensor:
        """Return the confident errors: suspects with a full margin of the miner's answer (evidence.py)."""
        if DEPRIVED not in self.predictions:
            return torch.zeros_like(self.mistakes)
        margin = self.predictions[DEPRIVED].margin
        relative = relative_margin(margin, self.mistakes, self.suspects.predicted)
        return self.mistakes & (relative >= FULL_MARGIN)

    def as_json(self) -> dict[str, Any]:
        e = self.evidence
        return {
            "verdict": self.finding.code,
            "text": self.finding.text,
            "evidence": {**asdict(e), "insistence": e.insistence},
            "flagged": int(self.suspects.conflict.sum()),
            "thresholds": asdict(THRESHOLDS),
            "seconds": round(self.seconds, 1),
            **({"explanation": self.explanation.as_json()} if self.explanation else {}),
            **({"power": self.power.as_json()} if self.power else {}),
        }
