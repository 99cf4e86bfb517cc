"""Free memory: a container or a job may use less than the machine has."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspur.data import free_memory as measured


def write_group(folder: Path, limit: str, used: int, cached: int, *, version: int = 2) -> None:
    """Write the files by which Linux describes a group of processes."""
    folder.mkdir(parents=True, exist_ok=True)
    names = measured.FILES[version]
    for name, value in zip(names, (limit, used), strict=False):
        (folder / name).write_text(f"{value}\n")
    half = "".join(f"{names[2]}{name} {cached // 2}\n" for name in measured.CACHED)
    (folder / "memory.stat").write_text(f"anon 5\n{half}")


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(measured, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(measured, "OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(measured, "_of_machine", lambda: 10**9)
    return tmp_path / "groups"


def test_a_container_has_less_memory_than_its_machine(groups: Path) -> None:
    write_group(groups, "1000", 700, 200)
    (groups.parent / "own").write_text("0::/\n")
    assert measured.free_memory() == 500


def test_the_smallest_limit_of_all_outer_groups_counts(groups: Path) -> None:
    write_group(groups / "slurm" / "job" / "step", "max", 10, 0)
    write_group(groups / "slurm" / "job", "4000", 1000, 500)
    write_group(groups / "slurm", "9000", 1000, 0)
    (groups.parent / "own").write_text("0::/slurm/job/step\n")
    assert measured.free_memory() == 3500


def test_groups_of_the_first_version(groups: Path) -> None:
    write_group(groups / "memory" / "docker" / "a", "3000", 1000, 300, version=1)
    (groups.parent / "own").write_text("5:cpu:/\n4:memory:/docker/a\n0::/\n")
    assert measured.free_memory() == 2300


def test_a_group_that_uses_more_than_its_limit_has_nothing_left(groups: Path) -> None:
    write_group(groups, "1000", 1500, 0)
    (groups.parent / "own").write_text("0::/\n")
    assert measured.free_memory() == 0


@pytest.mark.parametrize("own", [None, "", "0::/gone\n", "nonsense\n", "1:name=systemd:/\n"])
def test_without_a_limit_it_is_that_of_the_machine(groups: Path, own: str | None) -> None:
    if own is not None:
        (groups.parent / "own").write_text(own)
    assert measured.free_memory() == 10**9
