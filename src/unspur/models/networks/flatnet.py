"""The convolutional network of the ReBias and EnD papers: no strides, large kernels."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn


class FlatNet(nn.Module):
    """Four convolutions at full size with batch norm, a global average, a linear head."""

    def __init__(self, classes: int, *, width: int = 16, kernel: int = 7, channels: int = 3):
        super().__init__()
        sizes = [channels, width, 2 * width, 4 * width, 8 * width]
        self.body = nn.Sequential(
            *(
                nn.Sequential(
                    nn.Conv2d(a, b, kernel, padding=kernel // 2, bias=False),
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
