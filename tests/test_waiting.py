"""`python -m benchmarks wait`: the parts of a command add up to its clock."""

import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
waiting = pytest.importorskip("benchmarks.wait", reason="not run from a source tree")


def test_the_time_of_an_inner_part_counts_once():
    parts = waiting.Parts()
    began = time.perf_counter()
    with parts.part("outer"):
        time.sleep(0.02)
        with parts.part("inner"), parts.steps():
            time.sleep(0.05)
    whole = time.perf_counter() - began
    rows = parts.rows
    assert rows["inner"]["seconds"] >= 0.05
    assert rows["inner"]["steps"] >= 0.05
    assert 0.02 <= rows["outer"]["seconds"] < whole - 0.05 + 1e-3
    assert sum(row["seconds"] for row in rows.values()) == pytest.approx(whole, abs=0.02)


def test_a_command_in_a_new_process_is_measured_part_by_part(capfd):
    rows = {row["part"]: row for row in waiting.measure(["--version"])}
    assert "unspur" in capfd.readouterr().out
    assert {"start of Python", "import torch", "import unspur", "rest", "sum"} <= rows.keys()
    assert rows["sum"]["seconds"] == pytest.approx(
        sum(row["seconds"] for name, row in rows.items() if name != "sum")
    )
    assert rows["import torch"]["seconds"] > rows["import unspur"]["seconds"] / 10
    text = waiting.table(list(rows.values()))
    assert "neither torch's import nor steps" in text


def test_everything_that_is_timed_exists():
    import importlib

    for where, function, _ in waiting.PARTS:
        module, _, kind = where.partition(":")
        owner = importlib.import_module(module)
        assert callable(getattr(getattr(owner, kind) if kind else owner, function))
    for where in waiting.STEPS:
        assert callable(importlib.import_module(where).fit_together)
