"""Two encoders with one common head: the network that DisEnt trains, for any architecture."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Pair(nn.Module):
    """A linear head over the features of two networks, whose own heads are taken off."""

    def __init__(self, intrinsic: nn.Module, biased: nn.Module, *, head: str):
        super().__init__()
        layer = intrinsic.get_submodule(head)
        assert isinstance(layer, nn.Linear), "a classifier ends in a linear head"
        self.intrinsic, self.biased = _headless(intrinsic, head), _headless(biased, head)
        self.head = nn.Linear(2 * layer.in_features, layer.out_features)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The features of both networks, intrinsic first."""
        return self.intrinsic(x), self.biased(x)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(torch.cat(self.encode(x), dim=1))
        return logits


def _headless(model: nn.Module, head: str) -> nn.Module:
    """Remove the head of a network in place, so that it returns the features."""
    if not head:
        return nn.Identity()
    path, _, name = head.rpartition(".")
    setattr(model.get_submodule(path), name, nn.Identity())
    return model
