"""The numbers of docs/probe.md and docs/check.md from their records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unspur.errors import UnspurError
from unspur.reproduce.loop_tables import loop_text
from unspur.store import write_document


def case(kind: str, first: str, *, clean: bool, claims: list[str]) -> dict[str, Any]:
    effects = {name: {"effect": 0.1} for name in ("border", "colour", "light")}
    effects[first] = {"effect": 0.5}
    ranking = sorted(effects, key=lambda name: -effects[name]["effect"])
    about = {"base": "digits", "kind": kind, "clean": clean}
    return {**about, "effects": effects, "ranking": ranking, "claims": claims}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    cases = {
        "a": case("border", "border", clean=False, claims=["border"]),
        "b": case("tint", "light", clean=False, claims=["light"]),
        "c": case("light", "light", clean=False, claims=[]),
        "d": case("plain", "colour", clean=True, claims=["colour"]),
        "e": case("any-light", "light", clean=True, claims=[]),
    }
    write_document(tmp_path / "probe.json.gz", {"cases": cases})
    checks = {"audits": 4, "clean": 12, "any": 1, "shortcut": 0, "suspects": 1}
    model = {"alarms": 0, "checks": 100}
    planted = {"colour": {"alarms": 2, "checks": 3}}
    settings = {"images": 600, "size": 16, "steps": 1000}
    document = {"checks": checks, "model": model, "planted": planted, **settings}
    write_document(tmp_path / "check.json.gz", document)
    return tmp_path


def test_probes_are_counted(results: Path) -> None:
    assert loop_text(results, "probe right") == "1 of 3"
    assert loop_text(results, "probe ranked") == "2 of 3"
    assert loop_text(results, "probe clean sets") == "1 of 2"
    assert loop_text(results, "probe claims") == "1 of 6"
    assert loop_text(results, "probe largest") == "50.0 points (colour, digits)"
    rows = loop_text(results, "probe table").splitlines()
    assert len(rows) == 5
    assert rows[3] == "| digits | tint | colour | 10 | 50 (light) | 0 of 1 |"


def test_checks_are_counted(results: Path) -> None:
    assert loop_text(results, "check any") == "1 of 12"
    assert loop_text(results, "check suspects") == "1 of 12"
    assert loop_text(results, "check model") == "0 of 100"
    assert loop_text(results, "check colour") == "2 of 3"
    assert loop_text(results, "check steps") == "1,000"
    with pytest.raises(UnspurError, match="there is no 'nothing'"):
        loop_text(results, "nothing")
