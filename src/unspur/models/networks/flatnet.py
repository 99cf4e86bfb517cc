"""The convolutional network of the ReBias and EnD papers: no strides, large kernels."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional as F


class FlatNet(nn.Module):
    """Four convolutions at full size with batch norm, a global average, a linear head.

    With `unit`, as EnD has it: the last activation is a tanh, and the head sees features of length 1.
    """

    def __init__(
        self,
        classes: int,
        *,
        width: int = 16,
        kernel: int = 7,
        channels: int = 3,
        unit: bool = False,
    ):
        super().__init__()
        self.unit = unit
        sizes = [channels, width, 2 * width, 4 * width, 8 * width]
        self.body = nn.Sequential(
            *(
                nn.Sequential(
                    nn.Conv2d(a, b, kernel, padding=kernel // 2, bias=False),
                    nn.BatchNorm2d(b),
                    nn.Tanh() if unit and b == sizes[-1] else nn.ReLU(),
                )
                for a, b in pairwise(sizes)
            )
        )
        self.head = nn.Linear(sizes[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        features = self.body(x).mean((2, 3))
        logits: Tensor = self.head(F.normalize(features) if self.unit else features)
        return logits
