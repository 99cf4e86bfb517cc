"""Recommend debiasing or the ordinary model, from the verdict of an audit."""

from __future__ import annotations

from dataclasses import dataclass

from ..stages.context import Context
from .audit_cost import AuditCost, audit_cost
from .auditor import audit
from .conclusions import VERDICTS, VerdictCode
from .result import Audit
from .verdict import rests_on_border

BORDER = (
    "A small network does not rely on it, so a run would find other suspects. Run `unspur audit`, look "
    "through its suspects.csv, and give it to `unspur debias` with --suspects."
)
LOOK = (
    "To look at the suspects, run `unspur audit` (Python: unspur.audit) on the same data: it writes a page "
    "and a table of them, and reuses stored trainings."
)
OVERRIDE = "To debias in spite of this, use --anyway (Python: anyway=True)."


@dataclass(frozen=True)
class Judge:
    """The audit before a run, which decides whether there is a shortcut to remove."""

    context: Context

    def __call__(self) -> Recommendation:
        """Audit the training split; stored trainings of an earlier audit are reused."""
        return recommend(audit(self.context))

    def cost(self) -> AuditCost:
        """Estimate the cost of the audit from a few steps."""
        return audit_cost(self.context)


@dataclass(frozen=True)
class Recommendation:
    """The verdict, whether to debias, and the text for the user."""

    verdict: VerdictCode
    debias: bool
    text: str


def recommend(result: Audit) -> Recommendation:
    """Recommend debiasing only if the audit found a shortcut; otherwise give the reason against it."""
    finding = result.finding
    against = VERDICTS[finding.code].against_debiasing
    if rests_on_border(result.evidence):
        against = BORDER
    text = finding.full_text
    if not against:
        return Recommendation(finding.code, True, text)
    look = f" {LOOK}" if result.evidence.suspects and against != BORDER else ""
    return Recommendation(
        finding.code, False, f"{text} {against} The ordinary model is returned.{look} {OVERRIDE}"
    )
