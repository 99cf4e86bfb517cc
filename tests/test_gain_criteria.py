"""The criteria that scripts/gain_criteria.py tries, against plain loops."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from unspur.stages.suspects import Suspects

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
tried = pytest.importorskip("gain_criteria", reason="not run from a source tree")


def changes(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return which of 90 samples are lost (1) or won (-1), which are suspects, and their classes."""
    g = torch.Generator().manual_seed(seed)
    lost = torch.randint(-1, 2, (90,), generator=g).double()
    return lost, torch.rand(90, generator=g) < 0.4, torch.randint(3, (90,), generator=g)


@pytest.mark.parametrize("seed", range(3))
def test_the_costs_within_classes_are_those_of_plain_loops(seed: int) -> None:
    lost, conflict, targets = changes(seed)
    others = {
        label: [float(lost[i]) for i in range(90) if targets[i] == label and not conflict[i]]
        for label in range(3)
    }
    costs = [sum(others[int(k)]) / len(others[int(k)]) for k in targets[conflict]]
    assert tried.class_cost(lost, conflict, targets) == pytest.approx(sum(costs) / len(costs))
    balance = []
    for label in range(3):
        own = [-float(lost[i]) for i in range(90) if targets[i] == label and conflict[i]]
        assert len(own) >= 8
        balance.append(sum(own) / len(own) - sum(others[label]) / len(others[label]))
    assert tried.worst_class(lost, conflict, targets) == pytest.approx(min(balance))


def test_without_other_images_of_a_class_there_is_no_cost_within_it() -> None:
    lost, every = torch.ones(9), torch.ones(9, dtype=torch.bool)
    assert tried.class_cost(lost, every, torch.zeros(9)) is None
    assert tried.worst_class(lost, every, torch.zeros(9)) is None


def test_look_alikes_are_the_samples_of_which_the_miner_is_as_sure() -> None:
    """One suspect, of which the miner is hardly sure; the five others of which it is hardly sure are lost."""
    score = torch.tensor([0.6] + [0.4] * 5 + [0.01] * 5)
    conflict = torch.arange(11) == 0
    targets = torch.tensor([1] + [0] * 10)
    suspects = Suspects(score, conflict, torch.zeros(11, dtype=torch.int64))
    lost = torch.tensor([-1.0] + [1.0] * 5 + [0.0] * 5)
    every = torch.ones(11, dtype=torch.bool)
    assert tried.look_alike_cost(lost, suspects, targets, every) == 1.0
    assert tried.look_alike_cost(1 - lost, suspects, targets, every) == 0.0


@pytest.mark.parametrize("alike", [True, False])
def test_suspects_with_a_common_colour_are_coherent_and_random_ones_are_not(alike: bool) -> None:
    g = torch.Generator().manual_seed(0)
    images = torch.randint(256, (400, 3, 16, 16), generator=g, dtype=torch.uint8)
    conflict = torch.rand(400, generator=g) < 0.2
    if alike:
        images[conflict, 0] = 255
    suspects = Suspects(conflict.float(), conflict, torch.zeros(400, dtype=torch.int64))
    found = tried.coherence(images, suspects, torch.arange(400) % 2)
    assert found is not None
    assert found > 0.95 if alike else 0.35 < found < 0.65
