"""Recommend to debias or to return the ordinary model, from the verdict of an audit."""

from __future__ import annotations

from dataclasses import dataclass

from ..stages.context import Context
from .audit_cost import AuditCost, audit_cost
from .auditor import audit
from .conclusions import VERDICTS, VerdictCode
from .result import Audit
from .verdict import rests_on_border

BORDER = (
    "A small network does not go by it, so the suspects of a run would be others. Run `unspur audit`, look "
    "through its suspects.csv, and give it to `unspur debias` with --suspects."
)
OVERRIDE = "To debias all the same, give --anyway (Python: anyway=True)."


@dataclass(frozen=True)
class Judge:
    """An audit that is asked before a run: is there a shortcut to remove?"""

    context: Context

    def __call__(self) -> Recommendation:
        """Audit the training split, or take the stored trainings of an earlier audit."""
        return recommend(audit(self.context))

    def cost(self) -> AuditCost:
        """Return the most that the audit takes, measured on a few steps."""
        return audit_cost(self.context)


@dataclass(frozen=True)
class Recommendation:
    """The verdict, whether to debias, and the sentences that say so to a user."""

    verdict: VerdictCode
    debias: bool
    text: str


def recommend(result: Audit) -> Recommendation:
    """Recommend debiasing only where the audit found a shortcut; otherwise say why not."""
    finding = result.finding
    against = VERDICTS[finding.code].against_debiasing
    if rests_on_border(result.evidence):
        against = BORDER
    text = finding.full_text
    if not against:
        return Recommendation(finding.code, True, text)
    return Recommendation(
        finding.code, False, f"{text} {against} The ordinary model is returned. {OVERRIDE}"
    )
