"""Parts of a bench without a server: they cover every run once, and their results are combined."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench_desk import SEEDS, BenchDesk, open_desk
from unspur import recipes
from unspur.cli import bench_command
from unspur.cli.cluster_options import open_pool
from unspur.cluster import SerialPool, TaskFailure
from unspur.errors import UnspurError, UsageError
from unspur.recipes import Recipe
from unspur.runs.run_records import RunRecords
from unspur.workflow import ListPart, ManyRuns, Site, run_on_cluster


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> BenchDesk:
    desk = open_desk(tmp_path_factory.mktemp("parts"))
    desk.run(*desk.command("--out", "serial.json", "-q"))
    return desk


@pytest.mark.parametrize("text", ["", "1", "0/3", "4/3", "1/0", "-1/3", "a/b", "1/3/5", "1 / 3"])
def test_an_invalid_part_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="1/8 to 8/8"):
        ListPart.parse(text)


@pytest.mark.parametrize("together", [1, 2, 4])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 20])
def test_parts_cover_every_run_once(count: int, together: int) -> None:
    many = ManyRuns([Recipe(name="a"), Recipe(name="b", plan="erm")], range(5), together)
    parts = [many.groups(ListPart(number + 1, count)) for number in range(count)]
    runs = [(each.name, each.seed) for part in parts for group in part for each in group]
    assert sorted(runs) == sorted((name, seed) for name in "ab" for seed in range(5))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_the_last_part_writes_the_table_of_all_parts(desk: BenchDesk) -> None:
    options = ("--out", "parts.json", "-q", "--together", "2")
    said = desk.run(*desk.command(*options, "--part", "1/2", store="first"))
    assert "Part 1 of 2 is done: 4 of 6 runs" in said
    assert not (desk.root / "parts.json").exists()
    desk.run(*desk.command(*options, "--part", "2/2", store="second"))
    assert desk.numbers("parts.json") == desk.numbers("serial.json")
    assert (desk.root / "parts.md").exists()
    pretrained = [
        len(list((desk.root / s).glob("pretrain-????????????????"))) for s in ("first", "second")
    ]
    assert sum(pretrained) >= 3  # the second part did not repeat runs of the first
    assert len(list((desk.root / "second").glob("evaluate-*"))) == 2


def test_the_same_command_without_a_part_uses_the_results_of_the_parts(
    desk: BenchDesk, tmp_path: Path
) -> None:
    desk.run(*desk.command("--out", "merged.json", "-q", "--part", "1/2", store="third"))
    desk.run(*desk.command("--out", "merged.json", "-q", store="fourth"))
    assert desk.numbers("merged.json") == desk.numbers("serial.json")
    assert len(list((desk.root / "fourth").glob("evaluate-*"))) == 3


def test_a_record_of_other_data_is_not_used(desk: BenchDesk, tmp_path: Path) -> None:
    other = open_desk(tmp_path)
    for part in ("1/2", "2/2"):
        desk.run(*desk.command("--out", "known.json", "-q", "--part", part))
    shutil.copytree(desk.root / "known.runs", tmp_path / "new.runs")
    conflicting = sorted((tmp_path / "bars" / "1pct" / "align").rglob("*.png"))
    conflicting[0].unlink()
    other.run(*other.command("--out", "new.json", "-q"))
    assert other.numbers("new.json") != desk.numbers("serial.json")
    assert len(list((tmp_path / "store").glob("evaluate-*"))) == 6


class LossyPool:
    """Runs tasks in this process; the worker of the first one dies."""

    def run(self, function: Any, tasks: Any) -> Iterator[tuple[int, Any]]:
        yield 0, TaskFailure("its worker died")
        for number, arguments in list(enumerate(tasks))[1:]:
            yield number, function(*arguments)


def test_a_cluster_that_loses_a_group_keeps_the_others(
    desk: BenchDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk.root)
    many = ManyRuns([recipes.load("toy.toml"), recipes.load("ordinary.toml")], SEEDS, 2)
    site, records = (
        Site("cpu", str(tmp_path / "store"), Path("bars")),
        RunRecords(tmp_path / "r.json"),
    )
    lost = run_on_cluster(many, site, records, ListPart(), LossyPool())
    assert sorted(lost.runs) == [2, 3, 4, 5]
    assert lost.failures == [f"toy seed {seed}: its worker died" for seed in (0, 1)]
    kept = {path: path.read_bytes() for path in (tmp_path / "r.runs").iterdir()}
    assert len(kept) == 4
    with pytest.raises(UnspurError, match="2 runs failed; 4 of 6 runs are finished and kept"):
        bench_command._end(many, lost, ListPart(), tmp_path / "r.json", 1.0)

    made = len(list((tmp_path / "store").glob("evaluate-*")))
    again = run_on_cluster(many, site, records, ListPart(), SerialPool())
    assert again.failures == []
    assert len(list((tmp_path / "store").glob("evaluate-*"))) == made + 2
    bench_command._end(many, again, ListPart(), tmp_path / "r.json", 1.0)
    numbers = BenchDesk(tmp_path).numbers("r.json")
    assert numbers == desk.numbers("serial.json")


def test_a_worker_gets_absolute_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPUR_STORE", "elsewhere")
    assert Site("cpu").absolute() == Site("cpu", f"{Path.cwd()}/elsewhere")
    given = Site(None, "s3://bucket/x", Path("data")).absolute()
    assert given == Site(None, "s3://bucket/x", Path.cwd() / "data")


@pytest.mark.parametrize(("device", "gpus"), [("cuda:1", None), ("cpu", 0.5)])
def test_contradictory_options_of_a_cluster_are_refused(device: str, gpus: float | None) -> None:
    with pytest.raises(UsageError, match="--device cuda"):
        open_pool("local", device, 1.0, gpus, lambda state: None)


def test_a_group_has_one_gpu_by_default() -> None:
    for device, gpus, expected in (("cuda", None, 1.0), ("cuda", 0.25, 0.25), ("cpu", None, 0.0)):
        assert open_pool("auto", device, 2.0, gpus, lambda state: None).gpus == expected


def test_a_damaged_record_is_computed_again(desk: BenchDesk, tmp_path: Path) -> None:
    records, recipe = RunRecords(tmp_path / "r.json"), Recipe(name="a b/c", seed=3)
    assert records.read(recipe) is None
    records.add(recipe, {"seed": 3})
    assert records.read(recipe) == {"seed": 3}
    (path,) = (tmp_path / "r.runs").iterdir()
    assert path.name.startswith("a-b-c-3-")
    for content in (b'{"seed": 3', b"[]", b"\xff"):
        path.write_bytes(content)
        assert records.read(recipe) is None
