"""Slimming of mobile networks: depthwise convolutions, squeeze and excite, hard swish, explicit padding."""

import importlib.util

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

from channel_nets import Pooled, conv
from unspur.deploy import formats
from unspur.masks.channels import removable, slim
from unspur.masks.channels.shares import MultiplyAddCounter, keep_share, norms
from unspur.masks.channels.slim import silence
from unspur.masks.multiply_adds import multiply_adds
from unspur.models import builder
from unspur.models.networks.mobilenet import MobileNetV2


class Excite(nn.Module):
    """Squeeze and excite as in MobileNetV3; `padded` adds a border of zeros first."""

    def __init__(self, wide, *, padded=False):
        super().__init__()
        self.fc1, self.fc2, self.padded = nn.Conv2d(wide, 4, 1), nn.Conv2d(4, wide, 1), padded

    def forward(self, x):
        seen = F.pad(x, (1, 1, 1, 1)) if self.padded else x
        gate = self.fc2(F.relu(self.fc1(seen.mean((2, 3), keepdim=True)), inplace=True))
        return F.hardsigmoid(gate, inplace=True) * x


class Bneck(nn.Module):
    """The block of MobileNetV3 and EfficientNet; `same` pads explicitly, as TensorFlow does."""

    def __init__(self, a, b, *, act, stride=1, same=False, padded=False):
        super().__init__()
        wide = 3 * a
        border = nn.ZeroPad2d((0, 1, 0, 1)) if same else nn.Identity()
        deep = nn.Conv2d(wide, wide, 3, stride, 0 if same else 1, groups=wide, bias=False)
        self.up = nn.Sequential(nn.Conv2d(a, wide, 1, bias=False), nn.BatchNorm2d(wide), act())
        self.deep = nn.Sequential(border, deep, nn.BatchNorm2d(wide), act())
        self.excite = Excite(wide, padded=padded)
        self.down = conv(wide, b, 1, nn.Identity)
        self.residual = stride == 1 and a == b

    def forward(self, x):
        y = self.down(self.excite(self.deep(self.up(x))))
        return x + y if self.residual else y


def swish():
    return nn.Hardswish(inplace=True)


def mobilenet_v3():
    blocks = (Bneck(8, 8, act=swish), Bneck(8, 12, act=swish, stride=2))
    return Pooled(conv(3, 8, act=swish), *blocks, conv(12, 24, 1, swish), width=24)


def efficientnet_same():
    blocks = (Bneck(8, 8, act=nn.SiLU), Bneck(8, 12, act=nn.SiLU, stride=2, same=True))
    return Pooled(conv(3, 8, act=nn.SiLU), *blocks, conv(12, 24, 1, nn.SiLU), width=24)


def padded_excite():
    return Pooled(conv(3, 8), Bneck(8, 8, act=swish, padded=True), conv(8, 24, 1), width=24)


def activations():
    """Build a network with activations that torch does not tag as pointwise."""
    acts = (
        swish,
        nn.Mish,
        nn.PReLU,
        lambda: nn.PReLU(8),
        nn.LogSigmoid,
        lambda: nn.Threshold(0, 0),
    )
    sizes = (3, *[8] * len(acts))
    return Pooled(*(conv(a, 8, 1, act) for a, act in zip(sizes, acts, strict=False)), width=8)


NETS = {
    "MobileNetV2": lambda: MobileNetV2(5, width=0.25),
    "MobileNetV3": mobilenet_v3,
    "EfficientNet, padded by hand": efficientnet_same,
    "squeeze and excite behind a pad": padded_excite,
    "activations without a tag": activations,
}


def images(count=4, side=32, seed=0):
    return torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(seed))


def build_trained(make):
    """Build a network with batch-norm statistics as after training."""
    torch.manual_seed(0)
    model = make().eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.bias, std=0.3)
            nn.init.normal_(module.running_mean, std=0.3)
            nn.init.uniform_(module.running_var, 0.5, 2)
            nn.init.uniform_(module.weight, 0.5, 2)
    return model.requires_grad_(False)


def cut(model, share, x):
    """Zero the channels outside a share of the multiply–adds, in place; return what cannot be removed."""
    channels = removable(model, x)
    counter = MultiplyAddCounter.of(model, channels, x)
    silence(model, channels, ~keep_share(norms(model, channels), counter, share, spread="layer"))
    return channels.unremovable


@pytest.mark.parametrize("name", NETS)
def test_every_channel_but_the_output_can_be_removed(name):
    model = build_trained(NETS[name])
    assert set(removable(model, images(2)).unremovable.values()) == {"it is an output of the model"}


@pytest.mark.parametrize("name", NETS)
def test_a_slim_network_computes_the_same_and_is_smaller(name, tmp_path):
    model, x = build_trained(NETS[name]), images(8, seed=3)
    cut(model, 0.35, images(2))
    expected, work = model(x), multiply_adds(model, x)
    save_file(model.state_dict(), tmp_path / "whole.safetensors")
    slim(model, images(2))
    save_file(model.state_dict(), tmp_path / "slim.safetensors")
    torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-5)
    assert multiply_adds(model, x) <= 0.36 * work
    sizes = [(tmp_path / f"{kind}.safetensors").stat().st_size for kind in ("slim", "whole")]
    assert sizes[0] < 0.75 * sizes[1]


@pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="needs onnxruntime")
@pytest.mark.parametrize("name", ["MobileNetV2", "MobileNetV3", "EfficientNet, padded by hand"])
def test_a_slim_network_is_a_smaller_onnx_file(name, tmp_path):
    model, x = build_trained(NETS[name]), images(4, seed=3)
    cut(model, 0.35, images(2))
    expected = model(x)
    formats.write_onnx(model, x, tmp_path / "whole.onnx", {})
    slim(model, images(2), multiple=4)
    formats.write_onnx(model, x, tmp_path / "slim.onnx", {})
    run = formats.open_onnx(tmp_path / "slim.onnx")
    torch.testing.assert_close(run(x), expected, rtol=0, atol=1e-4)
    torch.testing.assert_close(run(x[:1]), expected[:1], rtol=0, atol=1e-4)
    sizes = [(tmp_path / f"{kind}.onnx").stat().st_size for kind in ("slim", "whole")]
    assert sizes[0] < sizes[1]


@pytest.mark.parametrize("name", ["mobilenetv2_035", "mobilenetv3_small_050", "efficientnet_lite0"])
def test_networks_of_timm_can_be_slimmed(name):
    try:
        make = builder(f"timm:{name}", 5).make
    except Exception as error:
        pytest.skip(f"timm cannot be used here: {error}")
    model, x = build_trained(make), images(4, side=64, seed=3)
    why = cut(model, 0.35, images(2, side=64))
    assert set(why.values()) == {"it is an output of the model"}
    expected, work = model(x), multiply_adds(model, x)
    slim(model, images(2, side=64))
    close = 1e-5 * max(1.0, float(expected.abs().max()))
    torch.testing.assert_close(model(x), expected, rtol=0, atol=close)
    assert multiply_adds(model, x) <= 0.36 * work
