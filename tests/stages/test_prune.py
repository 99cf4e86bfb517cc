"""Masks: their keys, and the scores of GraSP."""

import pytest
import torch
from torch import Tensor, nn

import toys
from unspur import stages
from unspur.methods import grasp
from unspur.stages.prune import _gradient_flow


@pytest.mark.parametrize("wanted", [True, False])
def test_the_scores_of_grasp_use_deterministic_operations_if_wanted(
    tmp_path, monkeypatch, wanted: bool
):
    """On a GPU the second derivatives of convolutions depend on the order of sums otherwise."""
    used, scores = [], grasp.scores

    def watched(*args, **options):
        used.append(torch.are_deterministic_algorithms_enabled())
        return scores(*args, **options)

    monkeypatch.setattr(grasp, "scores", watched)
    context = toys.context(tmp_path, [f"deterministic={str(wanted).lower()}"])
    _gradient_flow(context, ["conv.weight"])
    assert used == [wanted]


def dropout_net() -> nn.Module:
    """Return a network with dropout and batch norm, the same at every call."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = toys.TinyNet()
        model.norm = nn.Sequential(model.norm, nn.Dropout(0.5))
        model.unused = nn.Linear(6, 3)
    return model


def test_the_masks_of_grasp_depend_on_the_seed_of_the_run_only(tmp_path):
    """They depend neither on torch's random stream nor on the mode of the network that the user gives."""

    def score(mode: bool, state: int):
        context = toys.context(tmp_path, model=dropout_net().train(mode))
        torch.manual_seed(state)
        before = torch.get_rng_state()
        found = _gradient_flow(context, ["conv.weight", "head.weight"])
        assert torch.equal(torch.get_rng_state(), before)
        return found

    first = score(True, 0)
    assert toys.same(first, score(True, 1))
    assert toys.same(first, score(False, 0))


def test_grasp_scores_frozen_weights_and_weights_that_are_not_used(tmp_path):
    def score(model: nn.Module):
        names = ["conv.weight", "unused.weight", "head.weight"]
        return _gradient_flow(toys.context(tmp_path, model=model), names)

    frozen = dropout_net()
    frozen.conv.requires_grad_(False)
    found = score(frozen)
    assert toys.same(found, score(dropout_net()))
    assert bool((found["conv.weight"] != 0).any())
    assert bool((found["unused.weight"] == 0).all())


class Attends(nn.Module):
    """A network with one attention layer over the rows of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(24, 2, batch_first=True)
        self.head = nn.Linear(24, 2)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.movedim(1, 2).flatten(2)
        found, _ = self.attention(rows, rows, rows)
        logits: Tensor = self.head(found.mean(1))
        return logits


def test_the_key_of_masks_says_how_multiply_adds_of_attention_are_counted(tmp_path):
    """Earlier results had too few, and another key."""

    def key(**model):
        return stages.Run(toys.context(tmp_path, **model)).keys["prune"].ingredients

    assert key(model=Attends())["attention"] == 2
    assert "attention" not in key()
