"""The experiments on own images: odds of cells, and the loss of self-supervision."""

import inspect
import math
import sys
from pathlib import Path

import pytest
import torch

from unspur.stages import trainings

SCRIPTS = Path(__file__).parent.parent / "scripts"
if not SCRIPTS.is_dir():
    pytest.skip("not run from a source tree", allow_module_level=True)
sys.path.insert(0, str(SCRIPTS))
import own_cells  # noqa: E402
import own_start  # noqa: E402

ROOTS = 8 / (math.sqrt(6) + math.sqrt(2))


@pytest.mark.parametrize(
    ("power", "shares"),
    [(1.0, (6, 2)), (0.5, (ROOTS * math.sqrt(6), ROOTS * math.sqrt(2))), (0.0, (4, 4))],
)
def test_cells_share_the_draws_of_the_suspects_of_their_class(power, shares):
    targets = torch.tensor([0, 0, 0, 0, 1, 1])
    suspects = torch.tensor([True, True, True, False, True, False])
    seen = torch.tensor([1, 1, 2, 0, 0, 1])
    odds = torch.tensor([4.0, 2.0, 2.0, 1.0, 5.0, 1.0], dtype=torch.float64)
    found = own_cells.balance(odds, targets, suspects, seen, power)
    first, second = shares
    expected = [first * 4 / 6, first * 2 / 6, second, 1, 5, 1]
    assert found.tolist() == pytest.approx(expected)


def test_images_that_are_held_out_are_not_drawn():
    odds = torch.tensor([0.0, 3.0, 1.0, 1.0], dtype=torch.float64)
    suspects = torch.tensor([True, True, True, False])
    found = own_cells.balance(odds, torch.zeros(4).long(), suspects, torch.tensor([1, 1, 2, 0]), 0)
    assert found.tolist() == pytest.approx([0, 2, 2, 1])


def test_contrast_is_the_nt_xent_loss():
    torch.manual_seed(0)
    features = torch.randn(6, 4)
    unit = features / features.norm(dim=1, keepdim=True)
    losses = []
    for a in range(6):
        scores = [float(unit[a] @ unit[b]) / own_start.TEMPERATURE for b in range(6) if b != a]
        partner = float(unit[a] @ unit[(a + 3) % 6]) / own_start.TEMPERATURE
        losses.append(math.log(sum(map(math.exp, scores))) - partner)
    assert float(own_start.contrast(features)) == pytest.approx(sum(losses) / 6, rel=1e-5)


def test_the_stages_sample_by_cells_within_the_block():
    usual = trainings._odds
    with own_cells.sampled_by_cells(0.0):
        assert trainings._odds is not usual
        assert "_odds(" in inspect.getsource(trainings.oversample)  # looked up when it is called
    assert trainings._odds is usual
