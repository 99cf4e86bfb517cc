"""The judge that debiasing asks: go on, or return the ordinary model?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .auditing import Audit


@dataclass(frozen=True)
class Judgement:
    """Whether debiasing goes on, and why, in words."""

    verdict: str
    go_on: bool
    text: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def judge(found: Audit) -> Judgement:
    """Let debiasing go on only where a shortcut is likely."""
    code = found.finding.code
    if code == "shortcut":
        return Judgement(code, True, found.finding.text)
    kept = (
        "The ordinary model is returned; --anyway (in Python: anyway=True) debiases all the same."
    )
    return Judgement(code, False, f"{found.finding.text} {kept}")
