"""The small convolutional network in the order of the paper's text: ReLU before batch norm."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn


class ReluFirstNet(nn.Module):
    """The layers of ConvNet, except that each convolution is followed by ReLU and then by batch norm."""

    def __init__(self, classes: int, *, width: int = 64, kernel: int = 4, channels: int = 3):
        super().__init__()
        sizes = [channels, width, 2 * width, 4 * width]
        padding = kernel // 2 - (kernel % 2 == 0)
        self.body = nn.Sequential(
            *(
                nn.Sequential(
                    nn.Conv2d(a, b, kernel, stride=2, padding=padding, bias=False),
                    nn.ReLU(),
                    nn.BatchNorm2d(b),
                )
                for a, b in pairwise(sizes)
            )
        )
        self.head = nn.Linear(sizes[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(x).mean((2, 3)))
        return logits
