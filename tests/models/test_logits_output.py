"""Networks that return an object with `.logits`: how they are trained, and what stays the user's."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from toys import TinyNet
from unspur import models
from unspur.models.head import find_head


class Answer(TinyNet):
    """A network whose output is an object."""

    def forward(self, x: Tensor) -> Any:
        return SimpleNamespace(logits=super().forward(x), loss=None)


class Fails(nn.Module):
    def forward(self, x: Tensor) -> Any:
        raise ValueError("no")


def batch() -> Tensor:
    return torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def test_a_network_with_logits_returns_them() -> None:
    model = Answer()
    builder = models.find_logits(models.copy_builder(model), batch)
    built = builder.build(0).eval()
    assert torch.equal(built(batch()), model.eval()(batch()).logits)
    assert builder.how["output"] == "logits"
    assert find_head(built, batch()) == "head"
    assert list(built.state_dict()) == list(model.state_dict())
    assert isinstance(built, Answer)
    assert type(built).__name__ == "Answer"


def test_other_networks_are_left_alone() -> None:
    def never() -> Tensor:
        raise AssertionError("built-in networks are not tried")

    builtin = models.builder("convnet", 2)
    assert models.find_logits(builtin, never) is builtin
    for model in (TinyNet(), Fails()):
        plain = models.copy_builder(model)
        assert models.find_logits(plain, batch) is plain


def test_the_users_network_shares_weights_and_keeps_its_output() -> None:
    model = Answer()
    shared = models.return_logits(model)
    nn.init.zeros_(shared.head.weight)
    nn.init.ones_(shared.head.bias)
    assert isinstance(shared(batch()), Tensor)
    assert float(model(batch()).logits.detach().std()) == 0.0
    assert type(model) is Answer
    assert models.return_logits(shared) is shared


def test_the_output_is_restored() -> None:
    adapted = copy.deepcopy(models.return_logits(Answer()))
    restored = models.restore_output(adapted)
    assert type(restored) is Answer
    assert restored.head is adapted.head
    assert isinstance(adapted(batch()), Tensor)
    assert isinstance(restored(batch()).logits, Tensor)
    assert type(pickle.loads(pickle.dumps(restored))) is Answer  # noqa: S301  (our own bytes)
    plain = TinyNet()
    assert type(models.restore_output(plain)) is TinyNet


def test_the_configuration_is_part_of_the_key() -> None:
    sources = []
    for depth, version in ((1, "a"), (1, "b"), (2, "a")):
        model = TinyNet()
        settings = {"depth": depth, "transformers_version": version}
        model.config = SimpleNamespace(to_dict=lambda settings=settings: settings)  # type: ignore[assignment]
        sources.append(models.copy_builder(model).source)
    assert sources[0] == sources[1] != sources[2]
