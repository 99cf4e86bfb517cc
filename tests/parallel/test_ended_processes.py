"""A process that dies or fails stops all others, Ctrl-C stops all, and the same command continues."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from PIL import Image

import process_cases
from toys import shapes_set
from unspur.parallel import lifeline
from unspur.store import open_artifact

WITHIN = 30  # seconds within which the others end after one process has died, as docs/scale.md says
PATIENCE = 300  # seconds; the end of a process can take long on a busy machine


def command(folder):
    return (process_cases.__file__, str(folder), "slowly")


def wait_for_checkpoint(folder, processes):
    end = time.monotonic() + PATIENCE
    while not list(folder.glob("store/*.partial/checkpoint.safetensors")):
        assert time.monotonic() < end, "no checkpoint"
        assert all(process.poll() is None for process in processes), process_cases.finish(
            processes, 1
        )
        time.sleep(0.02)


def weights(folder):
    (path,) = folder.glob("store/pretrain-*")
    return open_artifact(path)


def continue_alone(folder):
    """Run the same command again in one process; return the trained weights."""
    process_cases.run_slowly(folder)
    return weights(folder)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return continue_alone(tmp_path_factory.mktemp("uninterrupted"))


def assert_resumed(artifact, uninterrupted):
    assert artifact.path.name == uninterrupted.path.name
    for name, tensor in uninterrupted.tensors.items():
        torch.testing.assert_close(artifact.tensors[name], tensor, rtol=1e-5, atol=1e-5)
    steps = [row["step"] for row in artifact.log if "loss" in row]
    assert steps == sorted(set(steps))  # no step is logged twice
    assert set(range(10, 121, 10)) <= set(steps)


def test_a_death_is_noticed_in_time():
    """The longest way: a heartbeat has just been seen, and the end of the others waits for their grace."""
    assert lifeline.LOST + lifeline.GRACE + 2 * lifeline.BEAT < WITHIN


@pytest.mark.slow
def test_a_killed_process_stops_all_and_one_process_continues(tmp_path, uninterrupted):
    processes = process_cases.start(2, *command(tmp_path))
    wait_for_checkpoint(tmp_path, processes)
    processes[1].kill()
    (code, _, said), _ = process_cases.finish(processes, PATIENCE)
    assert code == 1
    assert "process 1 of 2" in said
    assert str(processes[1].pid) in said
    assert "the same command again" in said
    assert_resumed(continue_alone(tmp_path), uninterrupted)


def test_ctrl_c_stops_four_processes_and_one_continues(tmp_path, uninterrupted):
    processes = process_cases.start(4, *command(tmp_path))
    wait_for_checkpoint(tmp_path, processes)
    os.killpg(processes[0].pid, signal.SIGINT)  # to all at once, as a terminal does
    (first, _, said), *others = process_cases.finish(processes, PATIENCE)
    assert first == 130
    assert "the same command again" in said
    assert others == [(130, "", "")] * 3
    assert_resumed(continue_alone(tmp_path), uninterrupted)


FAILING = """
import sys
from unspur import parallel
from unspur.errors import DataError
with parallel.joined() as team:
    if team.rank == 1:
        raise DataError("photos/1.jpg is gone.")
    parallel.any_of(False)
"""


def test_an_error_of_one_process_stops_all_and_is_shown():
    first, second = process_cases.finish(process_cases.start(2, "-c", FAILING), PATIENCE)
    assert first[0] == second[0] == 1
    assert "process 1 of 2: DataError: photos/1.jpg is gone." in second[2]
    assert "process 1 of 2 stopped: photos/1.jpg is gone." in first[2]


WAITING = """
from unittest import mock
import torch.distributed as dist
from unspur import parallel
connect = dist.init_process_group
def announce(*args, **options):
    print("waiting", flush=True)
    connect(*args, **options)
with mock.patch("torch.distributed.init_process_group", announce), parallel.joined():
    pass
"""


def test_ctrl_c_ends_a_process_that_waits_for_the_others():
    (process,) = process_cases.start(2, "-c", WAITING, ranks=[0])
    assert process.stdout.readline() == "waiting\n"
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    assert process_cases.finish([process], PATIENCE) == [(-signal.SIGINT, "", "")]


def images(folder):
    """Write tiny images in a folder for each class."""
    train = shapes_set(samples=120).train
    for number, (image, target) in enumerate(zip(train.images, train.targets, strict=True)):
        (folder / str(int(target))).mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray(image.permute(1, 2, 0).numpy())
        picture.save(folder / str(int(target)) / f"{number}.png")
    return str(folder)


def test_torchrun_audits_a_folder_and_shows_everything_once(tmp_path):
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    audit = ("-m", "unspur", "audit", images(tmp_path / "photos"), "--steps", "6")
    places = ("--out", str(tmp_path / "audit"), "--store", str(tmp_path / "store"))
    ended = subprocess.run(
        [sys.executable, *launch, *audit, *places, "--device", "cpu"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("The numbers are in") == 1
    assert ended.stderr.count("detail 2/2: step 6 of 6") == 1
    assert json.loads((tmp_path / "audit" / "audit.json").read_text())["explanation"] is not None
