"""The contract of methods, checked for the catalogue and for the losses of the built-in stages."""

import pytest
import torch
from torch import nn

from subjects import SUBJECTS
from toys import TinyNet
from unspur.data.batches import Batch
from unspur.methods import ERM, own_stages
from unspur.testing import CHECKS, Subject, check_method
from unspur.testing.contract import tiny_batch
from unspur.training.method import Method


@pytest.mark.parametrize("check", CHECKS.values(), ids=[name.replace(" ", "-") for name in CHECKS])
@pytest.mark.parametrize("name", SUBJECTS)
def test_the_method_passes_the_check(name, check):
    check(SUBJECTS[name])


@pytest.mark.parametrize("entry", own_stages().values(), ids=list(own_stages()))
def test_the_public_check_passes(entry, monkeypatch):
    monkeypatch.setattr("unspur.testing.contract.CHECKS", {})  # these run one by one above
    check_method(entry)


class Peeks(ERM):
    """A method that reads bias labels without declaring it."""

    def forward(self, batch: Batch, player):
        return {"loss of bias": nn.functional.cross_entropy(self.model(batch.x), batch.bias)}


class Forgets(ERM):
    """A method that keeps state outside of parameters and buffers, where no checkpoint finds it."""

    def __init__(self, model):
        super().__init__(model)
        self.steps = 1

    def forward(self, batch: Batch, player):
        self.steps += 1
        return {"scaled": sum(super().forward(batch, player).values()) * self.steps}


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (Peeks, "it uses bias labels only if it declares them"),
        (Forgets, "its state holds everything that training changes"),
    ],
)
def test_the_checks_find_a_faulty_method(kind, check):
    with pytest.raises(AssertionError):
        CHECKS[check](Subject("bad", lambda model, inputs: kind(model)))


def test_a_method_must_define_its_losses_and_predictions():
    class Empty(Method):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty must define forward"):
        Empty()(tiny_batch(), "model")
    with pytest.raises(NotImplementedError, match=r"Empty must define predict"):
        Empty().predict(torch.zeros(1))


def test_a_subject_starts_from_the_same_state_each_time():
    a, b = (SUBJECTS["erm"].make().state_dict() for _ in range(2))
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert isinstance(SUBJECTS["erm"].make().model, TinyNet)
