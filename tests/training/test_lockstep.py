"""Trainings in lockstep: each gives the same bits and the same log as alone, also if it is shorter."""

import threading
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from toys import MemoryCheckpointer, TinyNet, resident, same, shapes_set
from unspur.errors import Interrupted
from unspur.methods import ERM, Amplified
from unspur.training import loop, loop_state, sampling
from unspur.training.fit_options import FitOptions, Optimiser
from unspur.training.inputs import Training
from unspur.training.loop import fit_together
from unspur.training.loop_state import Loop

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.cuda,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU"),
        ],
    ),
]
each_device = pytest.mark.parametrize("device", DEVICES)
OPTIONS = FitOptions(steps=30, optimiser=Optimiser(rate=1e-2, schedule="cosine"), log_every=4)
SGD = replace(OPTIONS, steps=11, optimiser=Optimiser("sgd", rate=0.05))  # ends between two logs


class Follower:
    def __init__(self):
        self.updates = []

    def update(self, step, steps, loss):
        self.updates.append((step, steps))


def trainings(device, checkpointers=(None, None), options=(SGD, OPTIONS)):
    """Return a short and a long training of two methods."""
    source, found = resident(shapes_set(samples=64), device), []
    for number, method in enumerate([Amplified, ERM]):
        torch.manual_seed(number)
        order = sampling.Passes(torch.arange(64, device=device), batch=8, seed=number)
        made = method(TinyNet()).to(device)
        found.append(
            Training(made, source, order, options[number], (), checkpointer=checkpointers[number])
        )
    return found


def weights(trainings):
    return [each.method.state_dict() for each in trainings]


def in_lockstep(trainings, progress=None, stop=None, finished=None):
    """Advance trainings in lockstep on any device; `fit_together` does so on a GPU."""
    loops = [Loop(each) for each in trainings]
    for each in loops:
        each.restore()
    found = [] if finished is None else finished
    loop._run(loops, progress, stop or threading.Event(), found)


def logged(checkpointers):
    timing = ("seconds", "setup_seconds")
    rows = [
        [{k: v for k, v in r.items() if k not in timing} for r in c.rows] for c in checkpointers
    ]
    return [[row for row in each if "loss" in row] for each in rows]


@each_device
def test_a_shorter_training_finishes_while_the_other_goes_on(device):
    alone, together = trainings(device), trainings(device)
    for each in alone:
        fit_together([each])
    in_lockstep(together)
    for a, b in zip(weights(alone), weights(together), strict=True):
        assert same(a, b)


@each_device
def test_the_logs_are_those_of_one_training(device):
    kept = [[MemoryCheckpointer() for _ in range(2)] for _ in range(2)]
    for each in trainings(device, kept[0]):
        fit_together([each])
    in_lockstep(trainings(device, kept[1]))
    assert logged(kept[1]) == logged(kept[0])
    assert [row["step"] for row in logged(kept[1])[1]] == [*range(4, 29, 4), 30]


def test_the_progress_counts_all_steps(monkeypatch):
    monkeypatch.setattr(loop_state, "SHOW_EVERY", 0.0)
    follower = Follower()
    in_lockstep(trainings("cpu"), follower)
    assert [step for step, _ in follower.updates] == list(range(1, 42))
    assert {steps for _, steps in follower.updates} == {41}


@each_device
@pytest.mark.parametrize("step", [5, 20])  # before and after the end of the shorter one
def test_a_stopped_training_goes_on_with_the_same_bits(device, step):
    whole = trainings(device)
    in_lockstep(whole)
    stop, kept, finished = threading.Event(), [MemoryCheckpointer() for _ in range(2)], []

    class Stopper(MemoryCheckpointer):
        def log(self, row):
            super().log(row)
            if row["step"] >= step:
                stop.set()

    kept[1] = Stopper()
    with pytest.raises(Interrupted, match="of 30"):
        in_lockstep(trainings(device, kept), stop=stop, finished=finished)
    assert len(finished) == (step > SGD.steps)
    for each in finished:  # as `fit_together` does
        each.save()
    again = trainings(device, kept)
    fit_together(again)
    for a, b in zip(weights(again), weights(whole), strict=True):
        assert same(a, b)


def test_groups_on_a_gpu_follow_one_another_in_one_thread(monkeypatch):
    """Some of them continue an earlier training, so that they are at different steps."""

    class OnGpu:
        device, pace = torch.device("cuda"), "the same"

        def __init__(self, training):
            self.step = training

        def restore(self):
            pass

    threads = []
    monkeypatch.setattr(loop, "Loop", OnGpu)
    monkeypatch.setattr(loop, "_numerics", lambda first: nullcontext())
    monkeypatch.setattr(
        loop,
        "_run",
        lambda loops, *_: threads.append((len(loops), threading.current_thread().name)),
    )
    fit_together([0, 500, 500], lanes=8)
    here = threading.current_thread().name
    assert threads == [(1, here), (2, here)]


def test_a_training_runs_on_the_gpu_of_its_tensors(monkeypatch):
    """Streams, CUDA graphs and kernels of Triton are those of the current GPU."""
    chosen, second = [], torch.device("cuda", 1)
    monkeypatch.setattr(torch.cuda, "device", lambda device: chosen.append(device) or nullcontext())
    monkeypatch.setattr(loop, "isolated_random_stream", lambda device: nullcontext())
    for device in (torch.device("cpu"), second):
        with loop._numerics(SimpleNamespace(options=OPTIONS, device=device)):
            pass
    assert chosen == [second]


@pytest.mark.cuda
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="no two NVIDIA GPUs")
def test_a_training_on_the_second_gpu_gives_the_same_bits():
    first, second = trainings("cuda:0"), trainings("cuda:1")
    fit_together(first)
    fit_together(second)
    for a, b in zip(weights(first), weights(second), strict=True):
        assert same(a, {name: tensor.to("cuda:0") for name, tensor in b.items()})


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
def test_trainings_of_different_length_share_one_graph(monkeypatch):
    recorded = []
    record = loop.capture_steps
    monkeypatch.setattr(
        loop, "capture_steps", lambda loops, *a: recorded.append(len(loops)) or record(loops, *a)
    )
    alone, together = trainings("cuda"), trainings("cuda")
    fit_together(together)
    assert recorded == [2, 1]
    for each in alone:
        fit_together([each])
    for a, b in zip(weights(alone), weights(together), strict=True):
        assert same(a, b)
