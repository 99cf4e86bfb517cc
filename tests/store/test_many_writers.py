"""Eight processes write to one store: no work is lost or done twice, even if one of them is killed."""

from __future__ import annotations

import contextlib
import fcntl
import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from unspur.store import Store, Workspace, atomic, lease, locked

WRITERS, KEYS = 8, 12
SPAWN = multiprocessing.get_context("fork")


def make_all(root: Path, writer: int, without_locks: bool) -> None:
    """Compute every artifact of a list in a random order, and note which writer computes which."""
    torch.set_num_threads(1)
    if without_locks:
        forbid_locks()
    keys = list(range(KEYS))
    random.Random(writer).shuffle(keys)
    for key in keys:

        def work(workspace: Workspace, key: int = key) -> tuple[Any, Any]:
            note(root, f"begin {key} {writer}")
            time.sleep(0.05)
            note(root, f"end {key} {writer}")
            return {"value": torch.full((3,), float(key))}, {"key": key}

        artifact = Store(root / "store").make({"stage": "toy", "key": key}, work)
        assert artifact.tensors["value"].tolist() == [key] * 3


def note(root: Path, line: str) -> None:
    """Append a line in one system call."""
    handle = os.open(root / "notes.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


def forbid_locks() -> None:
    """Behave as a file system without locks."""

    def refuse(file: object, how: int) -> None:
        raise OSError(atomic.errno.ENOLCK, "no locks available")

    fcntl.flock = refuse


@pytest.mark.parametrize("without_locks", [False, True], ids=["locks", "leases"])
def test_eight_writers_of_one_store(tmp_path: Path, without_locks: bool) -> None:
    writers = [
        SPAWN.Process(target=make_all, args=(tmp_path, number, without_locks))
        for number in range(WRITERS)
    ]
    for each in writers:
        each.start()
    for each in writers:
        each.join(600)
        assert each.exitcode == 0
    notes = (tmp_path / "notes.txt").read_text().split("\n")
    made = Counter(line.split()[1] for line in notes if line.startswith("end"))
    assert made == {str(key): 1 for key in range(KEYS)}
    assert len(list((tmp_path / "store").glob("toy-????????????????"))) == KEYS
    assert not [p for p in (tmp_path / "store").iterdir() if p.suffix in (".lease", ".partial")]


@pytest.mark.parametrize("without_locks", [False, True], ids=["locks", "leases"])
def test_another_process_takes_over_from_a_killed_writer(
    tmp_path: Path, without_locks: bool
) -> None:
    (tmp_path / "notes.txt").touch()
    first = SPAWN.Process(target=make_slowly, args=(tmp_path, without_locks))
    first.start()
    while "begin" not in (tmp_path / "notes.txt").read_text():
        time.sleep(0.01)
    os.kill(first.pid or 0, signal.SIGKILL)
    first.join()
    second = SPAWN.Process(target=make_all, args=(tmp_path, 1, without_locks))
    second.start()
    second.join(600)
    assert second.exitcode == 0
    assert len(list((tmp_path / "store").glob("toy-????????????????"))) == KEYS


def make_slowly(root: Path, without_locks: bool) -> None:
    if without_locks:
        forbid_locks()

    def work(workspace: Workspace) -> tuple[Any, Any]:
        note(root, "begin 0 first")
        time.sleep(600)
        return {}, {}

    Store(root / "store").make({"stage": "toy", "key": 0}, work)


def test_a_lease_that_nobody_refreshes_is_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "STALE", 0.4)
    path = tmp_path / "x.lease"
    path.write_text("another-machine 1 abc")
    began = time.monotonic()
    with lease.leased(path):
        assert 0.3 < time.monotonic() - began < 50  # a minute is the usual limit
        assert "another-machine" not in path.read_text()
    assert not path.exists()


def test_a_lease_that_is_refreshed_is_not_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(lease, "time", clock)
    monkeypatch.setattr(lease, "REFRESH", 0.05)
    path = tmp_path / "x.lease"
    with lease.leased(path):
        watch = lease._Watch(path)
        for _ in range(3):
            assert not watch.is_stale()
            seen, end = path.stat().st_mtime_ns, time.monotonic() + 120
            while path.stat().st_mtime_ns == seen:
                assert time.monotonic() < end, "not refreshed"
                time.sleep(0.01)
            clock.now += 0.9 * lease.STALE
        assert not watch.is_stale()
        with pytest.raises(BlockingIOError), lease.leased(path, wait=False):
            pass


def test_a_lock_without_waiting_raises_if_it_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", fcntl.flock)  # restored after the test
    forbid_locks()
    with locked(tmp_path / "a"), contextlib.ExitStack() as stack:
        with pytest.raises(BlockingIOError):
            stack.enter_context(locked(tmp_path / "a", wait=False))
        stack.enter_context(locked(tmp_path / "b", wait=False))
