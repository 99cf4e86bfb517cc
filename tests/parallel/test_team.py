"""Rows are divided evenly and in order; without a launcher, or with one process, nothing is divided."""

from dataclasses import replace

import pytest
import torch

import toys
from unspur import parallel
from unspur.audit.half_training import lanes
from unspur.errors import RecipeError
from unspur.methods import ERM
from unspur.models import builder
from unspur.parallel import team as teams
from unspur.parallel.team import Team, rows_of, working_in
from unspur.stages.batch_check import check_batches
from unspur.testing.tiny import resident, shapes_set
from unspur.training import sampling
from unspur.training.fit_options import FitOptions, Optimiser
from unspur.training.inputs import Training
from unspur.training.loop_state import Loop


@pytest.mark.parametrize("total", [1, 2, 7, 32])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_rows_are_divided_evenly_and_in_order(total, size):
    parts = [rows_of(total, rank, size) for rank in range(size)]
    rows = [row for part in parts for row in range(total)[part.slice]]
    assert rows == list(range(total))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert all(part.counts == tuple(map(len, parts)) for part in parts)


@pytest.mark.parametrize("size", [None, "1"])
def test_one_process_has_no_team_and_an_ordinary_step(monkeypatch, size):
    """Also under `torchrun --nproc-per-node 1`: a step has no overhead, and can be captured."""
    for name, value in {"RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    if size:
        monkeypatch.setenv("WORLD_SIZE", size)
    with parallel.joined() as team:
        assert team is None
        assert parallel.process_count() == 1
        order = sampling.Passes(torch.arange(240), batch=8, seed=0)
        options = FitOptions(steps=1, optimiser=Optimiser())
        assert (
            Loop(Training(ERM(toys.TinyNet()), resident(shapes_set()), order, options)).team is None
        )


def test_a_process_works_alone_within_a_team():
    with working_in(Team(1, 2, None, None, 1)):
        assert (parallel.process_count(), parallel.is_first()) == (2, False)
        with parallel.alone():
            assert (parallel.process_count(), parallel.is_first()) == (1, True)
        assert parallel.process_count() == 2
    assert teams.current() is None


def test_several_processes_train_one_network_of_an_audit_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    context = toys.context(tmp_path, ["model.name=convnet"])
    context = replace(context, builder=builder("convnet", 2))
    assert lanes(context) == 4
    with working_in(Team(0, 2, None, None, 0)):
        assert lanes(context) == 1


def test_more_processes_than_images_of_a_batch_are_refused(tmp_path):
    context = toys.context(tmp_path, ["pretrain.batch=4"])
    with (
        working_in(Team(0, 5, None, None, 0)),
        pytest.raises(RecipeError, match="there are 5 processes"),
    ):
        check_batches(context, ["pretrain"])
