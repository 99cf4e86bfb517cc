"""The libraries of a GPU are loaded in the background, once, before the first training."""

import threading

import pytest
import torch

from unspur.training import gpu_start

GPU = torch.device("cuda")


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    monkeypatch.setattr(gpu_start, "_started", {})


def test_nothing_starts_for_a_cpu():
    gpu_start.start(torch.device("cpu"))
    assert not gpu_start._started
    gpu_start.finish()


def test_a_gpu_is_started_once_and_waited_for(monkeypatch):
    calls, release = [], threading.Event()

    def work(device):
        assert release.wait(300)
        calls.append(device)

    monkeypatch.setattr(gpu_start, "_first_step", work)
    for _ in range(2):
        gpu_start.start(GPU)
    assert not calls
    release.set()
    gpu_start.finish()
    assert calls == [GPU]


def test_a_problem_is_left_to_the_training(monkeypatch):
    calls = []

    def fail(*arguments):
        calls.append(arguments)
        raise RuntimeError("no such library")

    monkeypatch.setattr(gpu_start, "_convolve", fail)
    monkeypatch.setattr(torch.cuda, "device", lambda device: torch.no_grad())
    gpu_start._first_step(GPU)  # raises nothing
    assert len(calls) == 1


def test_the_first_step_draws_no_random_numbers():
    before = torch.get_rng_state()
    gpu_start._convolve(torch.device("cpu"), torch.float32)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
def test_the_first_step_runs_on_a_gpu():
    before = torch.cuda.get_rng_state()
    for dtype in (torch.float32, torch.bfloat16):
        gpu_start._convolve(GPU, dtype)
    assert torch.equal(torch.cuda.get_rng_state(), before)
