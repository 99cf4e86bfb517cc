"""A run that is killed at any moment and started again gives the same bits as an uninterrupted run."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import toys
from toys import same
from unspur import stages
from unspur.store import open_artifact

TESTS = Path(__file__).parents[1]
CHANGES = [
    *("mine.how=epoch-ensemble", "mine.threshold=0.4", "data.augment=crop-flip"),
    *("finetune.drop=0.2", "checkpoint_every=12", "checkpoint_seconds=0", "watch_every=10"),
]


def tensors(store):
    """Return the tensors of a store by artifact; check that no partial artifact is left."""
    folders = [path for path in store.iterdir() if path.suffix != ".lock"]
    assert all(path.is_dir() and "." not in path.name for path in folders), folders
    left = {f.name for folder in folders for f in folder.iterdir()}
    assert left <= {"tensors.safetensors", "artifact.json", "log.jsonl"}
    return {path.name: open_artifact(path) for path in folders}


def assert_same(store, whole):
    a, b = tensors(store), tensors(whole)
    assert a.keys() == b.keys()
    assert len(a) == 5
    for name, artifact in a.items():
        assert same(artifact.tensors, b[name].tensors), name
        assert artifact.facts == b[name].facts
        assert [steps(row) for row in artifact.log] == [steps(row) for row in b[name].log]


def steps(row):
    return {key: value for key, value in row.items() if key != "seconds"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the store of an uninterrupted run."""
    store = tmp_path_factory.mktemp("whole")
    results, _ = stages.run(toys.context(store, CHANGES))
    assert "finetune" in results
    return store


# One process loads all libraries. Then its child processes are killed at one moment after another: right
# before or right after each call that changes the disk.
DYING = """
import os, signal, sys, tempfile
from pathlib import Path

import torch

torch.set_num_threads(1)
import toys
from unspur import stages, store
from unspur.store import atomic

CALLS = ("fsync", "replace", "rename", "truncate", "open")
root, stride, changes = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
with tempfile.TemporaryDirectory() as folder:
    stages.run(toys.context(Path(folder), changes))


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def arm(moment):
    count = 0

    def deadly(call):
        def called(*args, **kwargs):
            nonlocal count
            count += 1
            if count == moment:
                die()
            found = call(*args, **kwargs)
            count += 1
            if count == moment:
                die()
            return found

        return called

    for name in CALLS:
        setattr(atomic.os, name, deadly(getattr(os, name)))
    log = store.Workspace.log
    store.Workspace.log = deadly(log)
    return lambda: count


def attempt(folder, moment):
    \"\"\"Run in a child process that is killed at a moment; return whether it finished.\"\"\"
    if (child := os.fork()) == 0:
        arm(moment)
        stages.run(toys.context(folder, changes))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0 or os.WTERMSIG(status) == signal.SIGKILL, status
    return status == 0


moment = 1
while not attempt(root / f"at-{moment}", moment):  # one store for each moment; the second attempt finishes
    assert attempt(root / f"at-{moment}", 10**9)
    moment += stride

deaths = 0
while not attempt(root / "again", 2 * stride):  # one store; every attempt gets further than the last
    deaths += 1
    assert deaths < 50
print(deaths)
"""


def environment():
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""}


def test_being_killed_at_any_write_does_not_change_the_result(tmp_path, whole):
    done = subprocess.run(
        [sys.executable, "-c", DYING, str(tmp_path), "37", *CHANGES],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 3
    stores = sorted(tmp_path.iterdir())
    assert len(stores) >= 6
    for store in stores:
        assert_same(store, whole)


RUN = """
import sys, time
from pathlib import Path

import torch

torch.set_num_threads(1)
import toys
from unspur import stages, store
from unspur.store import atomic

root, pattern = Path(sys.argv[1]), sys.argv[2]
log = store.Workspace.log


def slowly(self, row):  # leaves time to be killed: much of it once there is the file
    there = any(root.glob(pattern))
    log(self, row)
    time.sleep(600 if there else 0.05)


store.Workspace.log = slowly
stages.run(toys.context(root, sys.argv[3:]))
"""


def kill_at(store, pattern):
    """Start the run and kill it once there is a file; return whether it was still running."""
    command = [sys.executable, "-c", RUN, str(store), pattern, *CHANGES]
    process = subprocess.Popen(command, env=environment())
    end = time.monotonic() + 300
    while process.poll() is None and not any(store.glob(pattern)):
        assert time.monotonic() < end
        time.sleep(0.002)
    process.kill()
    return process.wait() == -signal.SIGKILL


def test_being_killed_by_another_process_does_not_change_the_result(tmp_path, whole):
    store = tmp_path / "store"
    for stage, name in [("mine", "log.jsonl"), ("prune", "checkpoint.safetensors")]:
        pattern = f"{stage}-*.partial/{name}"
        assert kill_at(store, pattern)
        assert any(store.glob(f"{stage}-*.partial"))
    stages.run(toys.context(store, CHANGES))
    assert_same(store, whole)
