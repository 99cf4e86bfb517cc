"""Masks by a score: they are reproducible on a GPU."""

import pytest
import torch

import toys
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
