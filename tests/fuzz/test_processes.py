"""Eight processes on one store and one folder, readers during a live run, dead owners, jumping clocks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unspur.store import claim, open_artifact
from unspur.store.folder_lock import LOCK
from unspur.store.manifest import check_folder

from . import crash, desk, processes


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("many")
    processes.prepare(root)
    return root


def check_all(root: Path) -> None:
    """Check that the folder and every artifact are undamaged, and that there are no temporary files."""
    assert check_folder(root / "out", "model.json")
    for path in (root / "store").iterdir():
        if path.suffix != ".lock":
            assert "." not in path.name, path
            assert open_artifact(path).tensors
    assert not list((root / "out").glob("*.tmp"))


@pytest.mark.slow
def test_eight_runs_into_one_folder(root: Path) -> None:
    started = [processes.start(root, *processes.run_arguments()) for _ in range(8)]
    ends = [processes.end(process) for process in started]
    assert not [said for code, said in ends if processes.is_raw(code, said)]
    assert any(code == 0 for code, _ in ends)
    refused = [said for code, said in ends if code]
    assert all("is being written by process" in said for said in refused), refused
    check_all(root)


@pytest.mark.slow
def test_other_commands_during_a_live_run(root: Path) -> None:
    live = processes.start(root, *processes.run_arguments(seed=1), jumping=True)
    words = [
        *(["report", "out", "--store", "store"], ["predict", "out", "data/valid"]),
        *(["export", "out", "--data-root", "data"], ["runs", "rm", "--all", "--store", "store"]),
        processes.run_arguments("second", seed=1),
    ]
    ends = [processes.end(process) for process in [processes.start(root, *w) for w in words]]
    ends.append(processes.end(live))
    assert not [said for code, said in ends if processes.is_raw(code, said)], ends
    assert ends[-1][0] == 0, ends[-1]
    again = processes.end(processes.start(root, *processes.run_arguments(seed=1)))
    assert again[0] == 0, again
    check_all(root)


def test_eight_processes_at_the_same_time(tmp_path: Path) -> None:
    """As above, but forked, so that eight interpreters need not start."""
    children = []
    for _ in range(8):
        if (child := os.fork()) == 0:
            os._exit(crash.do(lambda root: desk.make_run(root, desk.SHORT), tmp_path))
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert set(codes) <= {crash.ENDED, crash.REFUSED}, codes
    assert crash.ENDED in codes
    assert crash.contents(tmp_path)
    assert crash.orphans(tmp_path) == []


HOLD = """
import sys, time
from pathlib import Path
from unspur.store import claim
with claim(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_the_lock_of_a_dead_owner_is_free(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, env=os.environ
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"held\n"
    owner.kill()
    owner.wait()
    owner.stdout.close()
    assert (tmp_path / LOCK).exists()
    began = time.monotonic()
    with claim(tmp_path):
        assert time.monotonic() - began < 30
