"""The comparison of size and speed before and after debiasing, and its advice."""

from __future__ import annotations

import copy

import torch
from torch import nn

from unspur.deploy.before_after import WHOLE_CHANNELS, SizeAndSpeed, compare


def network(width: int = 32) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, width, 3),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(width, 2),
    )


def test_without_dead_channels_the_network_is_smaller() -> None:
    whole = network()
    pruned = copy.deepcopy(whole)
    with torch.no_grad():
        for name in ("weight", "bias"):
            getattr(pruned[0], name)[8:] = 0  # type: ignore[index]
    before = copy.deepcopy(pruned.state_dict())
    found = compare(whole, pruned, torch.rand(2, 3, 8, 8), seconds=0.01)
    assert found.removed == 24
    assert found.after.bytes < 0.3 * found.before.bytes
    assert found.after.milliseconds > 0
    (line,) = found.lines(on_channels=True)
    assert "without 24 dead channels" in line
    assert all(torch.equal(before[name], t) for name, t in pruned.state_dict().items())


def test_masks_on_single_weights_give_a_hint() -> None:
    whole = network()
    pruned = copy.deepcopy(whole)
    with torch.no_grad():
        pruned[0].weight[:, 0, 0] = 0  # type: ignore[index, operator]
    found = compare(whole, pruned, torch.rand(2, 3, 8, 8), seconds=0.01)
    assert found.removed == 0
    assert found.after.bytes == found.before.bytes
    assert found.lines(on_channels=False)[1] == WHOLE_CHANNELS
    assert "--set prune.unit=channel" in WHOLE_CHANNELS
    assert len(found.lines(on_channels=True)) == 1


def test_small_numbers_are_not_rounded_to_zero() -> None:
    assert str(SizeAndSpeed(bytes=670_000, milliseconds=0.55)) == "0.67 MB, 0.55 ms per image"
    assert str(SizeAndSpeed(bytes=12_000, milliseconds=0.042)) == "0.012 MB, 0.042 ms per image"
