"""`python -m benchmarks scaling`: time and memory of a step as functions of one size at a time."""

import sys
from pathlib import Path

import pytest

from unspur.store import read_document

sys.path.insert(0, str(Path(__file__).parent.parent))
scaling = pytest.importorskip("benchmarks.scaling", reason="not run from a source tree")


def test_a_point_has_the_time_and_memory_of_a_step():
    row = scaling.time_case(scaling.Case(images=1200, pixels=8, batch=4, width=2), "cpu")
    assert list(row) == ["weights", "us", "cpu_us", "mib"]
    assert all(value > 0 for value in row.values())


def test_images_after_the_first_thousand_repeat():
    split = scaling._images(scaling.Case(images=1003, pixels=8, classes=3))
    assert len(split) == 1003
    assert split.images[:3].equal(split.images[1000:])
    assert int(split.targets.max()) == 2


def test_a_point_that_fails_is_shown_and_the_others_are_measured(monkeypatch, tmp_path, capsys):
    def measure(case, device):
        if case.classes == 100:
            raise RuntimeError("out of memory")
        return {"weights": 1, "us": 2.0, "cpu_us": 2.0, "mib": 3.0}

    monkeypatch.setattr(scaling, "measure", measure)
    scaling.main(["--device", "cuda", "--only", "classes", "--out", str(tmp_path / "s.json")])
    shown = capsys.readouterr()
    assert "RuntimeError: out of memory" in shown.err
    assert "| classes | 1,000 | 1 | 2 | 2 | 3 |" in shown.out
    rows = read_document(tmp_path / "s.json")["tables"]["curves"]
    assert [(row["size"], row["value"]) for row in rows] == [
        ("classes", value) for value in (2, 10, 1000)
    ]


def test_the_curves_cover_the_sizes_that_the_page_names():
    for device in ("cpu", "cuda"):
        curves = scaling.CURVES[device]
        assert list(curves)[:5] == ["images", "pixels", "classes", "batch", "width"]
        ends = [(values[0], values[-1]) for values in curves.values()]
        assert ends[:3] == [(1_000, 1_000_000), (28, 224), (2, 1_000)]
