"""`python -m benchmarks scale --only steps`: a step of ResNet-18, divided over processes in several ways."""

import sys
from pathlib import Path

import pytest

from unspur.store import read_document

sys.path.insert(0, str(Path(__file__).parent.parent))
scale = pytest.importorskip("benchmarks.scale", reason="not run from a source tree")


def test_the_fastest_round_is_kept_and_slow_ways_have_one_round(monkeypatch, tmp_path):
    times = iter([20.0, 22.0, 30.0, 40.0, 80.0, 10.0, 11.0, 31.0])
    asked = []

    def measure(device, launch, options):
        asked.append((device, launch[-1:], options))
        return {"captured": False, "step_us": next(times), "mib": None}

    monkeypatch.setattr(scale, "ROUNDS", 2)
    monkeypatch.setattr(scale, "_divided_step", measure)
    scale.main(["--device", "cuda", "--out", str(tmp_path / "scale.json")])
    rows = read_document(tmp_path / "scale.json")["tables"]["steps"]
    assert [row["step_us"] for row in rows] == [10.0, 11.0, 30.0, 40.0, 80.0]
    assert [row["times"] for row in rows] == [1.0, 1.1, 3.0, 4.0, 8.0]
    assert asked[:3] == [("cuda", (), ()), ("cuda", ("1",), ()), ("cuda", (), ("--team",))]


@pytest.mark.parametrize("launch", [(), (*scale.TORCHRUN, "2")])
def test_a_step_is_measured_in_new_processes(launch, monkeypatch):
    monkeypatch.chdir(Path(__file__).parent.parent)
    row = scale._divided_step("cpu", launch, ())
    assert row["step_us"] > 0
    assert row["captured"] is False
