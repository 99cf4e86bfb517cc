"""Masks: their keys, and scores that are reproducible on a GPU."""

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
