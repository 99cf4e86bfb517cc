"""A seeded part of the fuzzing; `make fuzz` runs more of it."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from unspur.errors import DataError

from . import oracle
from .campaign import SHARES, attack
from .crash import COMMANDS, attempt, fail_calls
from .desk import Desk
from .mutators import damage, damage_json
from .oracle import Case, judge

INPUTS = {
    "reviews": 200,
    "bundles": 30,
    "shapes": 40,
    "store": 80,
    "folders": 100,
    "tables": 200,
    "images": 150,
}


@pytest.mark.parametrize("surface", SHARES)
def test_every_input_gives_a_result_or_an_error(desk: Desk, surface: str) -> None:
    tally = attack(surface, desk, 2026, range(INPUTS.get(surface, 250)))
    assert tally.faults == []
    assert tally.inputs == INPUTS.get(surface, 250)
    assert tally.counts["right"] > 0


@pytest.mark.parametrize("command", COMMANDS)
def test_some_failing_calls_lose_nothing(tmp_path: Path, command: str) -> None:
    stride = {"run": 131, "export": 89, "page": 31}[command]
    counts = fail_calls(command, tmp_path, seed=5, stride=stride)
    assert counts.lost == []
    assert counts.ends["calls"] >= 1


# The oracle can fail.


def test_the_oracle_detects_every_kind_of_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(error: Exception) -> None:
        raise error

    def outcome(call, right=True) -> str:  # type: ignore[no-untyped-def]
        return judge(Case("x", call, lambda found, warned: right, ("file.csv",)))[0]

    assert outcome(lambda: 1) == "right"
    assert outcome(lambda: 1, right=False) == "silent"
    assert outcome(lambda: fail(KeyError("a"))) == "raw"
    assert outcome(lambda: fail(DataError("file.csv is odd"))) == "refused"
    assert outcome(lambda: fail(DataError("something is odd"))) == "unnamed"
    monkeypatch.setattr(oracle, "SECONDS", 0.1)
    assert outcome(lambda: time.sleep(600)) == "hang"


def test_a_case_is_a_function_of_its_number() -> None:
    data = b'{"a": [1, 2, {"b": 3}], "c": "text"}' * 3
    for change in (damage, damage_json):
        runs = [[change(random.Random(f"{n}"), data) for n in range(50)] for _ in range(2)]
        assert runs[0] == runs[1]
        assert len(set(runs[0])) > 25


def test_a_failing_call_is_reached(tmp_path: Path) -> None:
    """The first failing call below the folder is made by the command itself."""

    def write(root: Path) -> None:
        (root / "a").write_text("b")

    assert attempt(write, tmp_path, 1, "EIO") == 3
    assert attempt(write, tmp_path, 1, "die before") == -9
    assert attempt(write, tmp_path, 99, "EIO") == 5
    assert attempt(lambda root: {}["x"], tmp_path, 0) == 4
