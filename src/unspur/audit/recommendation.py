"""Recommend to debias or to return the ordinary model, from the verdict of an audit."""

from __future__ import annotations

from dataclasses import dataclass

from .conclusions import VERDICTS, VerdictCode
from .result import Audit

OVERRIDE = "To debias all the same, give --anyway (Python: anyway=True)."


@dataclass(frozen=True)
class Recommendation:
    """The verdict, whether to debias, and the sentences that say so to a user."""

    verdict: VerdictCode
    debias: bool
    text: str


def recommend(audit: Audit) -> Recommendation:
    """Recommend debiasing only where the audit found a shortcut; otherwise say why not."""
    finding, against = audit.finding, VERDICTS[audit.finding.code].against_debiasing
    if not against:
        return Recommendation(finding.code, True, finding.text)
    return Recommendation(
        finding.code, False, f"{finding.text} {against} The ordinary model is returned. {OVERRIDE}"
    )
