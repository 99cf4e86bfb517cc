"""A multi-layer perceptron for small images."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn


class MLP(nn.Module):
    """Flatten, hidden layers with ReLU, a linear head."""

    def __init__(self, classes: int, *, inputs: int = 2352, hidden: Sequence[int] = (100, 100, 32)):
        super().__init__()
        sizes = [inputs, *hidden]
        layers = [nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(sizes)]
        self.body = nn.Sequential(nn.Flatten(), *layers)
        self.head = nn.Linear(sizes[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(x))
        return logits
