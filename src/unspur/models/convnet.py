"""The small convolutional network of the paper's CMNIST experiments."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn


class ConvNet(nn.Module):
    """Three strided convolutions with batch norm, a global average, a linear head (reference width 64)."""

    def __init__(self, classes: int, *, width: int = 64, kernel: int = 4, channels: int = 3):
        super().__init__()
        sizes = [channels, width, 2 * width, 4 * width]
        self.body = nn.Sequential(
            *(
                nn.Sequential(
                    nn.Conv2d(
                        a, b, kernel, stride=2, padding=kernel // 2 - (kernel % 2 == 0), bias=False
                    ),
                    nn.BatchNorm2d(b),
                    nn.ReLU(),
                )
                for a, b in pairwise(sizes)
            )
        )
        self.head = nn.Linear(sizes[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(x).mean((2, 3)))
        return logits
