"""MobileNetV2 with the parameter names of torchvision, so that its published weights can be loaded."""

from __future__ import annotations

from torch import Tensor, nn

# For each group of blocks: expansion factor, output channels, number of blocks, stride of the first block.
BLOCKS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class InvertedResidual(nn.Module):
    """Widen, filter each channel by itself, narrow again; a shortcut where the shapes allow one."""

    def __init__(self, inputs: int, outputs: int, stride: int, widen: int):
        super().__init__()
        inner = inputs * widen
        self.shortcut = stride == 1 and inputs == outputs
        self.conv = nn.Sequential(
            *([_convolve(inputs, inner, 1)] if widen > 1 else []),
            _convolve(inner, inner, 3, stride=stride, groups=inner),
            nn.Conv2d(inner, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x)
        return x + y if self.shortcut else y


class MobileNetV2(nn.Module):
    """The standard network; `width` multiplies the number of channels of every layer."""

    def __init__(
        self, classes: int, *, width: float = 1.0, dropout: float = 0.2, channels: int = 3
    ):
        super().__init__()
        last = _whole(1280 * max(1.0, width))
        at = _whole(32 * width)
        layers: list[nn.Module] = [_convolve(channels, at, 3, stride=2)]
        for widen, outputs, count, first_stride in BLOCKS:
            for number in range(count):
                stride = first_stride if number == 0 else 1
                layers.append(InvertedResidual(at, _whole(outputs * width), stride, widen))
                at = _whole(outputs * width)
        self.features = nn.Sequential(*layers, _convolve(at, last, 1))
        head = nn.Linear(last, classes)
        self.classifier = nn.Sequential(nn.Dropout(dropout), head)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
        nn.init.normal_(head.weight, std=0.01)
        nn.init.zeros_(head.bias)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.features(x).mean((2, 3)))
        return logits


def _convolve(
    inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """Return a convolution with batch norm and ReLU6."""
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU6())


def _whole(channels: float) -> int:
    """Round to a multiple of 8, at least 8; round up if rounding would lose more than a tenth."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded
