"""BagNet-18: a residual network with a receptive field of five pixels: texture and colour, no shapes."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class PatchBlock(nn.Module):
    """Two convolutions, the second of size one, and a shortcut cut to what remains."""

    def __init__(self, inputs: int, outputs: int, stride: int, kernel: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, kernel, stride, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.bn2(self.conv2(x))
        return F.relu(x + shortcut[:, :, : x.shape[2], : x.shape[3]])


class BagNet18(nn.Module):
    """The biased network of ReBias at image scale: no padding, one 3×3 convolution after the stem's."""

    def __init__(self, classes: int, *, channels: int = 3):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 64, 1, bias=False)
        self.conv2 = nn.Conv2d(64, 64, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64, momentum=0.001)
        self.layer1 = nn.Sequential(PatchBlock(64, 64, 2, 3), PatchBlock(64, 64, 1, 1))
        self.layer2 = nn.Sequential(PatchBlock(64, 128, 2, 1), PatchBlock(128, 128, 1, 1))
        self.layer3 = nn.Sequential(PatchBlock(128, 256, 2, 1), PatchBlock(256, 256, 1, 1))
        self.layer4 = nn.Sequential(PatchBlock(256, 512, 1, 1), PatchBlock(512, 512, 1, 1))
        self.fc = nn.Linear(512, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv2(self.conv1(x))))
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        logits: Tensor = self.fc(x.mean((2, 3)))
        return logits
