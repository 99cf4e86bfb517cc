"""On a local Ray cluster, a worker and the driver are killed; the tables equal those of a serial run."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench_desk import BenchDesk, open_desk
from unspur.cluster import PoolState, RayPool, SerialPool, TaskFailure
from unspur.errors import UsageError
from unspur.report.pool_table import StateLines, state_cells
from unspur.workflow import ListPart, Site

pytest.importorskip("ray", reason="the extra `ray` is not installed")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> BenchDesk:
    desk = open_desk(tmp_path_factory.mktemp("ray"), steps=60)
    desk.run(*desk.command("--out", "serial.json", "-q", store="serial"))
    return desk


def wait_for(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    """Wait until a condition holds while a process is running."""
    until = time.monotonic() + 600
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, "nothing happened"
        time.sleep(0.02)


def workers(folder: Path) -> list[int]:
    """Return the Ray worker processes of our task that work in a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            named = (path / "cmdline").read_bytes().startswith(b"ray::run_quietly")
            if named and Path(os.readlink(path / "cwd")) == folder:
                found.append(int(path.name))
        except OSError:
            continue
    return found


def kill_one_worker(desk: BenchDesk, process: subprocess.Popen[str]) -> None:
    """Kill a worker as soon as there is a checkpoint that it could have written."""
    wait_for(lambda: [*(desk.root / "store").glob("*.partial/checkpoint.safetensors")], process)

    def is_killed() -> bool:
        try:
            os.kill(workers(desk.root)[0], signal.SIGKILL)
        except (IndexError, ProcessLookupError):  # between two tasks there is none
            return False
        return True

    wait_for(is_killed, process)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc to find the workers")
def test_a_killed_worker_and_a_killed_driver_lose_nothing(desk: BenchDesk) -> None:
    command = desk.command("--ray", "--out", "ray.json")
    process = desk.start(*command)
    kill_one_worker(desk, process)
    records = desk.root / "ray.runs"
    wait_for(lambda: len([*records.glob("*.json")]) >= 2, process)
    process.kill()  # the driver
    process.communicate()
    left = {path: path.read_bytes() for path in records.glob("*.json")}
    assert 2 <= len(left) < 6
    assert not (desk.root / "ray.json").exists()
    stored = {
        path: path.stat().st_mtime_ns for path in (desk.root / "store").glob("*-*/artifact.json")
    }

    process = desk.start(*command)
    out, err = process.communicate(timeout=900)
    assert process.returncode == 0, out + err
    assert desk.numbers("ray.json") == desk.numbers("serial.json")
    assert "done 6, failed 0" in err
    assert {path: path.read_bytes() for path in left} == left
    assert {
        path: path.stat().st_mtime_ns for path in stored
    } == stored  # nothing was computed again


POOL = """
import json
from unspur.cluster import RayPool, TaskFailure
from unspur.workflow import ListPart

states = []
pool = RayPool(cpus=0.5, show=states.append)
found = dict(pool.run(ListPart.parse, [("1/2",), ("5/2",), ("2/2",), (7,)]))
print(json.dumps({
    "numbers": [found[0].number, found[2].number],
    "failure": found[1].reason,
    "fault": found[3].reason,
    "last": [states[-1].done, states[-1].failed, states[-1].running],
}))
"""


def test_a_failed_task_does_not_stop_the_others(desk: BenchDesk) -> None:
    done = subprocess.run(
        [*desk.python, "-c", POOL], capture_output=True, text=True, env=desk.environment
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["numbers"] == [1, 2]
    assert found["failure"].startswith("UsageError: --part '5/2'")
    assert "TypeError" in found["fault"]
    assert found["last"] == [2, 2, 0]


def test_an_address_without_a_cluster_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no Ray cluster answers at 127\.0\.0\.1:1 "):
        list(RayPool("127.0.0.1:1").run(ListPart.parse, [("1/1",)]))


def test_without_tasks_no_cluster_is_started() -> None:
    assert list(RayPool("127.0.0.1:1").run(ListPart.parse, [])) == []


def test_arguments_of_workers_can_be_pickled() -> None:
    site = Site("cpu", "store", Path("data"))
    assert sent(site) == site
    assert sent(site.context).__self__ == site
    assert sent(TaskFailure("x")) == TaskFailure("x")
    assert dict(SerialPool().run(divmod, [(7, 2), (9, 4)])) == {0: (3, 1), 1: (2, 1)}


def sent(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301  (our own bytes)


def test_progress_is_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert state_cells(PoolState(2, 3, 1, 0, None)) == ["2", "3", "1", "0", "–"]
    assert state_cells(PoolState(2, 3, 1, 0, 7325.0))[-1] == "2 h 02 min"
    lines = StateLines()
    for seconds in (None, 61.0, 60.0):
        lines.show(PoolState(1, 0, 0, 0, seconds))
    lines.show(PoolState(0, 0, 1, 0, 0.0))
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert said[1] == "groups: running 0, waiting 0, done 1, failed 0, time left 0 min 00 s"
