"""Several processes on a GPU give what one gives; exchanges by NCCL are captured with the step.

Two processes share one card here, so tensors travel by gloo. NCCL takes one process a card: it is tested with
a team of one, which no command makes.
"""

import warnings

import pytest
import torch
import torch.distributed as dist

import process_cases
from ports import free_port
from unspur.parallel.team import Team, working_in

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU"),
]
# Largest differences, relative to 1 + |value|, after a hundred steps of ResNet-18 in float64.
LOSS, WEIGHTS = 1e-9, 1e-9


def assert_equal(found, expected):
    differences = {
        name: float(((found[name].double() - t.double()).abs() / (1 + t.double().abs())).max())
        for name, t in expected.items()
    }
    losses = differences.pop("losses")
    name = max(differences, key=differences.get)
    print(f"losses differ by {losses:.2g}, weights by {differences[name]:.2g} ({name})")
    assert losses < LOSS
    assert differences[name] < WEIGHTS


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return process_cases.do("resnet-cuda", tmp_path_factory.mktemp("alone"))["resnet"]


def test_two_processes_on_one_card_train_as_one(alone, tmp_path):
    found = process_cases.run_in_processes(2, "resnet-cuda", tmp_path)
    assert_equal(found["resnet"], alone)


def test_a_step_with_nccl_is_captured(alone, tmp_path, monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(free_port()))
    dist.init_process_group("cpu:gloo,cuda:nccl", rank=0, world_size=1)
    try:
        control = dist.new_group(backend="gloo")
        team = Team(0, 1, control, control, 0, can_be_captured=True)
        with working_in(team), warnings.catch_warnings():
            warnings.simplefilter("error")  # that the step cannot be captured is a warning
            found = process_cases.do("resnet-cuda", tmp_path)
        assert_equal(found["resnet"], alone)
    finally:
        dist.destroy_process_group()
