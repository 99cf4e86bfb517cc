"""Whether to debias, from the verdict of an audit."""

from __future__ import annotations

import pytest
import torch

from unspur.audit.conclusions import VERDICTS
from unspur.audit.evidence import Evidence
from unspur.audit.recommendation import recommend
from unspur.audit.result import Audit
from unspur.audit.verdict import Finding
from unspur.stages.suspects import Suspects


def audit(code, suspects=0):
    none = torch.zeros(3, dtype=torch.bool)
    return Audit(
        finding=Finding(code, f"{VERDICTS[code].headline}: for a reason."),
        evidence=Evidence(samples=3, suspects=suspects, error=0.0, blind=0.5),
        suspects=Suspects(torch.zeros(3), none, torch.zeros(3, dtype=torch.int64)),
        mistakes=none,
        predictions={},
        trainings=(),
    )


def test_debiasing_is_recommended_for_a_shortcut():
    found = recommend(audit("shortcut"))
    assert found.debias
    assert found.text == "A shortcut is likely: for a reason."


@pytest.mark.parametrize("code", [code for code in VERDICTS if code != "shortcut"])
def test_every_other_verdict_recommends_the_ordinary_model_with_a_reason(code):
    found = recommend(audit(code))
    assert not found.debias
    assert found.text.startswith(f"{VERDICTS[code].headline}: for a reason. ")
    assert VERDICTS[code].against_debiasing in found.text
    assert "The ordinary model is returned." in found.text
    assert "--anyway" in found.text
    assert "anyway=True" in found.text


def test_a_verdict_about_suspects_says_how_to_look_at_them():
    assert "run `unspur audit`" in recommend(audit("unclear", suspects=2)).text
    assert "run `unspur audit`" not in recommend(audit("unclear", suspects=0)).text
    assert "run `unspur audit`" not in recommend(audit("shortcut", suspects=2)).text


def test_an_audit_is_printed_in_a_few_words():
    text = "Audit('Cannot tell: for a reason.', suspects=Suspects(0 of 3 samples))"
    assert repr(audit("unclear")) == text
