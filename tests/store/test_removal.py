"""Artifacts that a live run computes or reads are not removed, unless forced."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

from unspur.errors import StoreError, TrainingError
from unspur.store import Store, check_finite, remove
from unspur.store.workspace import Workspace

INGREDIENTS = {"stage": "mine", "device": "cpu", "seed": 0}


def work(workspace):
    return {"x": torch.zeros(3)}, {"n": 1}


HOLDER = """
import sys, time
from pathlib import Path
import torch
from unspur.store import Store
store, ingredients = Store(Path(sys.argv[1])), {"stage": "mine", "device": "cpu", "seed": 0}
if sys.argv[2] == "makes":
    with store.open_artifacts([ingredients]):
        print("ready", flush=True)
        time.sleep(600)
else:
    artifact = store.find(ingredients)
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def hold(tmp_path):
    """Return a function that starts another process, which computes an artifact of the store or reads it."""
    started = []

    def start(how: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", HOLDER, str(tmp_path), how]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("how", ["makes", "reads"])
def test_an_artifact_in_use_cannot_be_removed(tmp_path: Path, hold, how: str) -> None:
    if how == "reads":
        Store(tmp_path).make(INGREDIENTS, work)
    process = hold(how)
    (path,) = Store(tmp_path).artifacts()
    with pytest.raises(StoreError, match=r"in use by a run\. Wait .*--force removes it"):
        remove(path)
    assert path.exists()
    process.kill()
    process.wait()
    remove(path)
    assert list(Store(tmp_path).artifacts()) == []


def test_force_removes_an_artifact_in_use(tmp_path: Path, hold) -> None:
    Store(tmp_path).make(INGREDIENTS, work)
    hold("reads")
    (path,) = Store(tmp_path).artifacts()
    remove(path, force=True)
    assert list(Store(tmp_path).artifacts()) == []


def test_an_artifact_can_be_removed_when_nobody_uses_it(tmp_path: Path) -> None:
    artifact = Store(tmp_path).make(INGREDIENTS, work)
    path = artifact.path
    with pytest.raises(StoreError, match="in use"):
        remove(path)
    del artifact
    remove(path)
    assert sorted(tmp_path.iterdir()) == []  # no lock is left behind


def test_a_removal_that_was_killed_does_not_prevent_the_next_one(tmp_path: Path) -> None:
    path = Store(tmp_path).make(INGREDIENTS, work).path
    left_over = path.with_name(f"{path.name}.removed")
    left_over.mkdir()
    (left_over / "tensors.safetensors").write_bytes(b"half")
    remove(path)
    assert sorted(tmp_path.iterdir()) == []


# Results that are not finite


@pytest.mark.parametrize(
    ("tensors", "facts", "where"),
    [
        ({"w": torch.tensor([1.0, torch.nan])}, {}, r": w\."),
        ({"w": torch.tensor([torch.inf])}, {}, r": w\."),
        ({"w": torch.tensor([-torch.inf], dtype=torch.bfloat16)}, {}, r": w\."),
        ({}, {"debiased": {"average": float("nan")}}, r": debiased\.average\."),
        ({}, {"rows": [1.0, float("inf")]}, r": rows\[1\]\."),
    ],
)
def test_results_that_are_not_finite_are_not_stored(
    tmp_path: Path, tensors, facts, where: str
) -> None:
    with pytest.raises(TrainingError, match=where):
        Store(tmp_path).make(INGREDIENTS, lambda workspace: (tensors, facts))
    assert Store(tmp_path).find(INGREDIENTS) is None


def test_finite_numbers_of_every_type_pass() -> None:
    tensors = {
        "w": torch.zeros(2),
        "i": torch.ones(2, dtype=torch.int64),
        "b": torch.tensor([True]),
        "e": torch.zeros(0),
    }
    check_finite("all", tensors, {"a": None, "b": [1, "nan", True, {"c": 2.0}]})


# Threads


@pytest.fixture
def _threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_threads")
def test_another_number_of_threads_gives_a_warning(tmp_path: Path) -> None:
    torch.set_num_threads(2)
    Store(tmp_path).make(INGREDIENTS, work)
    torch.set_num_threads(1)
    with pytest.warns(UserWarning, match="2 threads instead of 1"):
        Store(tmp_path).find(INGREDIENTS)


@pytest.mark.usefixtures("_threads")
def test_other_threads_do_not_matter_on_a_gpu(tmp_path: Path) -> None:
    torch.set_num_threads(2)
    on_gpu = {**INGREDIENTS, "device": "cuda"}
    Store(tmp_path).make(on_gpu, work)
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Store(tmp_path).find(on_gpu) is not None


@pytest.mark.usefixtures("_threads")
def test_another_number_of_threads_on_resume_gives_a_warning(tmp_path: Path) -> None:
    torch.set_num_threads(2)
    Workspace(tmp_path / "a.partial").checkpoint({"x": torch.zeros(3)}, {"step": 3})
    Workspace(tmp_path / "a.partial").resume()
    torch.set_num_threads(1)
    with pytest.warns(UserWarning, match=r"2 threads .* with 1.*OMP_NUM_THREADS=2"):
        Workspace(tmp_path / "a.partial").resume()
