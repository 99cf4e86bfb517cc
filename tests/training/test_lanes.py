"""Simultaneous trainings on a CPU: each gives the same bits as alone on one thread."""

import math

import pytest
import torch

from toys import MemoryCheckpointer, TinyNet, resident, same, shapes_set
from unspur.errors import Interrupted, TrainingError
from unspur.methods import ERM
from unspur.training import sampling
from unspur.training.fit_options import FitOptions, Optimiser
from unspur.training.inputs import Training
from unspur.training.lane_progress import shared_progress
from unspur.training.loop import fit_together
from unspur.training.numerics import one_thread

STEPS = 12


def trainings(count, *, checkpointers=None, method=ERM):
    source = resident(shapes_set(samples=64))
    found = []
    for number in range(count):
        torch.manual_seed(number)
        order = sampling.Passes(torch.arange(64), batch=8, seed=number)
        options = FitOptions(steps=STEPS, optimiser=Optimiser(), seed=number)
        kept = checkpointers[number] if checkpointers else None
        found.append(Training(method(TinyNet()), source, order, options, (), kept))
    return found


def weights(trainings):
    return [each.method.state_dict() for each in trainings]


def test_every_training_gives_the_same_bits_as_alone():
    alone, together = trainings(3), trainings(3)
    with one_thread():
        fit_together(alone)
    fit_together(together, lanes=2)
    for a, b in zip(weights(alone), weights(together), strict=True):
        assert same(a, b)
    assert not same(*weights(together)[:2])


def test_threads_and_random_stream_are_restored():
    threads, stream = torch.get_num_threads(), torch.get_rng_state()
    some = trainings(2)
    stream = torch.get_rng_state()
    fit_together(some, lanes=2)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), stream)


def test_a_failure_of_one_stops_and_saves_the_others():
    class Failing(ERM):
        def forward(self, batch, player):
            raise TrainingError("on purpose")

    kept = [MemoryCheckpointer() for _ in range(2)]
    (good, _), (_, bad) = (
        trainings(2, checkpointers=kept),
        trainings(2, checkpointers=kept, method=Failing),
    )
    with pytest.raises((TrainingError, Interrupted)):
        fit_together([good, bad], lanes=2)
    assert kept[0].resume() is not None


def test_progress_adds_up_all_trainings():
    updates = []

    class Follower:
        def update(self, step, steps, loss):
            updates.append((step, steps, loss))

    first, second = shared_progress(Follower(), [10, 20], [0, 5])
    first.update(3, 10, 0.5)
    second.update(6, 20, math.nan)
    first.update(4, 10, 0.25)
    assert [each[:2] for each in updates] == [(8, 30), (9, 30), (10, 30)]
    assert shared_progress(None, [1, 2], [0, 0]) == [None, None]
