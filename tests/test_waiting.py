"""`python -m benchmarks wait`: the parts of a command add up to its total time."""

import importlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
waiting = pytest.importorskip("benchmarks.wait", reason="not run from a source tree")


class Time:
    """A clock that tests set by hand."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now

    process_time = perf_counter


def test_the_time_of_an_inner_part_counts_once(monkeypatch):
    clock = Time()
    monkeypatch.setattr(waiting, "time", clock)
    parts = waiting.Parts()
    with parts.part("outer"):
        clock.now += 2.0
        with parts.part("inner"), parts.steps():
            clock.now += 5.0
        clock.now += 1.0
    clock.now += 0.5
    with parts.part("last"):
        pass
    seconds = {name: row["seconds"] for name, row in parts.rows.items()}
    assert seconds == {"rest": 0.5, "outer": 3.0, "inner": 5.0, "last": 0.0}


def test_steps_are_a_share_of_the_part_they_are_in(monkeypatch):
    clock = Time()
    monkeypatch.setattr(waiting, "time", clock)
    parts = waiting.Parts()
    with parts.part("prune"):
        clock.now += 1.0
        with parts.steps():
            clock.now += 4.0
    assert parts.rows["prune"] == {"part": "prune", "seconds": 5.0, "cpu": 5.0, "steps": 4.0}


def test_a_command_in_a_new_process_is_measured_part_by_part(capfd):
    found, compiled = waiting.measure(["--version"])
    rows = {row["part"]: row for row in found}
    assert "unspur" in capfd.readouterr().out
    assert {"start of Python", "import torch", "import unspur", "rest", "sum"} <= rows.keys()
    assert rows["sum"]["seconds"] == pytest.approx(
        sum(row["seconds"] for name, row in rows.items() if name != "sum")
    )
    assert rows["import torch"]["seconds"] > rows["import unspur"]["seconds"] / 10
    text = waiting.table(found, compiled)
    assert "nor steps: " in text


def test_modules_without_bytecode_are_counted(tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / f"compiled_{name}.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    original = waiting.SourceFileLoader.source_to_code
    monkeypatch.setattr(waiting.SourceFileLoader, "source_to_code", original)  # restored at the end
    compiled = waiting.Compiled()
    compiled.count()
    for name in ("one", "two", "one"):
        importlib.import_module(f"compiled_{name}")
    assert compiled.modules == 2
    assert compiled.seconds > 0
    row = {"part": "sum", "seconds": 1.0, "cpu": 1.0, "steps": 0.0}
    assert "compiled from source: 2 Python modules" in waiting.table([row], vars(compiled))
    assert "compiled" not in waiting.table([row], vars(waiting.Compiled()))


def test_every_timed_function_exists():
    import importlib

    for where, function, _ in waiting.PARTS:
        module, _, kind = where.partition(":")
        owner = importlib.import_module(module)
        assert callable(getattr(getattr(owner, kind) if kind else owner, function))
    for where in waiting.STEPS:
        assert callable(importlib.import_module(where).fit_together)
