"""scripts/audit_suite.py: recorded evidence can be judged again, without training."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from unspur.audit.evidence import Evidence, NetworkEvidence
from unspur.audit.statistics import Statistic
from unspur.audit.thresholds import THRESHOLDS
from unspur.store import read_document

sys.path.insert(0, str(Path(__file__).parent.parent / "scripts"))
suite = pytest.importorskip("audit_suite", reason="not run from a source tree")


def row(samples: int, verdict: str, truth: str, place: int) -> dict[str, Any]:
    """Return a recorded case with 22 suspects that look merely hard."""
    taught = NetworkEvidence(Statistic(0.05, 0.3), None, None, before=0.1, right=0.15)
    e = Evidence(samples, 22, 0.055, 0.9, networks={"taught": taught})
    kind = suite.KINDS[place]
    case = suite.Case(truth, "digits", kind, 0.02, 8, "unseen")
    return {
        **asdict(case),
        "name": case.name,
        "verdict": verdict,
        "text": "as it was",
        "evidence": {**asdict(e), "insistence": e.insistence},
        "flagged": 22,
        "seconds": 1.0,
        "taken": 1.0,
        "right": True,
    }


def test_recorded_evidence_is_judged_by_the_present_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [row(400, "nothing", "null", 0), row(5000, "nothing", "shortcut", 1)]
    suite.save(rows, out := tmp_path / "cases.json.gz", 400)
    suite.rescore(out)
    assert capsys.readouterr().out == "digits/colour/0.02@8: nothing -> unclear\n"
    first, second = read_document(out)["cases"]
    assert (first["verdict"], first["right"]) == ("unclear", True)
    assert first["text"].startswith("Cannot tell: 22 of 400 images")
    assert (second["verdict"], second["right"]) == ("nothing", False)
    assert first["evidence"] == rows[0]["evidence"]
    assert read_document(out)["thresholds"] == asdict(THRESHOLDS)
    assert read_document(out)["images"] == 400
