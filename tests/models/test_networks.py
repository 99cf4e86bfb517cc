"""The networks: parameter names of torchvision, sizes of the reference code, several image sizes."""

import pytest
import torch
from torch import nn

from unspur.models import BUILTIN
from unspur.models.networks.convnet import ConvNet
from unspur.models.networks.mlp import MLP
from unspur.models.networks.resnet import ResNet18

BATCH_NORM = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


@pytest.fixture(autouse=True)
def same_weights():
    """Models start from the same weights in every run."""
    torch.manual_seed(0)


def torchvision_resnet18_names():
    """Return the names in the state dict of torchvision's resnet18, in order."""
    names = ["conv1.weight", *(f"bn1.{n}" for n in BATCH_NORM)]
    for stage in range(1, 5):
        for block in range(2):
            at = f"layer{stage}.{block}"
            for layer in (1, 2):
                names += [f"{at}.conv{layer}.weight", *(f"{at}.bn{layer}.{n}" for n in BATCH_NORM)]
            if stage > 1 and block == 0:
                names += [
                    f"{at}.downsample.0.weight",
                    *(f"{at}.downsample.1.{n}" for n in BATCH_NORM),
                ]
    return [*names, "fc.weight", "fc.bias"]


def test_resnet18_has_torchvision_names():
    assert list(ResNet18(10).state_dict()) == torchvision_resnet18_names()
    assert len(torchvision_resnet18_names()) == 122


def test_resnet18_has_torchvision_shapes():
    state = ResNet18(1000).state_dict()
    assert sum(p.numel() for p in ResNet18(1000).parameters()) == 11_689_512
    assert state["conv1.weight"].shape == (64, 3, 7, 7)
    assert state["layer2.0.conv1.weight"].shape == (128, 64, 3, 3)
    assert state["layer4.0.downsample.0.weight"].shape == (512, 256, 1, 1)
    assert state["fc.weight"].shape == (1000, 512)


@pytest.mark.parametrize("size", [28, 32, 64])
def test_resnet18_halves_the_image_five_times(size):
    model, x = ResNet18(7).eval(), torch.rand(2, 3, size, size)
    maps = []
    model.layer1.register_forward_hook(lambda m, args, out: maps.append(out.shape))
    model.layer4.register_forward_hook(lambda m, args, out: maps.append(out.shape))
    assert model(x).shape == (2, 7)
    quarter, last = -(-size // 4), -(-size // 32)
    assert maps == [(2, 64, quarter, quarter), (2, 512, last, last)]


def test_resnet18_block_adds_its_shortcut():
    block = ResNet18(2).layer1[0].eval()
    nn.init.zeros_(block.conv2.weight)
    x = torch.rand(1, 64, 4, 4)
    torch.testing.assert_close(block(x), x)


@pytest.mark.parametrize(("size", "last"), [(28, 3), (32, 4), (64, 8)])
def test_convnet_halves_the_image_three_times(size, last):
    model = ConvNet(10).eval()
    x = torch.rand(2, 3, size, size)
    assert model.body(x).shape == (2, 256, last, last)
    assert model(x).shape == (2, 10)
    torch.testing.assert_close(model(x), model.head(model.body(x).mean((2, 3))))


def test_convnet_layers_are_those_of_the_paper():
    convs = [m for m in ConvNet(10).modules() if isinstance(m, nn.Conv2d)]
    assert [tuple(c.weight.shape) for c in convs] == [
        (64, 3, 4, 4),
        (128, 64, 4, 4),
        (256, 128, 4, 4),
    ]
    assert all(c.stride == (2, 2) and c.padding == (1, 1) and c.bias is None for c in convs)


@pytest.mark.parametrize("kernel", [3, 4, 5])
def test_convnet_keeps_its_map_sizes_for_other_kernels(kernel):
    model = ConvNet(3, width=4, kernel=kernel, channels=1)
    assert model.body(torch.rand(2, 1, 32, 32)).shape == (2, 16, 4, 4)


def test_mlp_layers():
    model = MLP(10)
    sizes = [tuple(p.shape) for name, p in model.named_parameters() if name.endswith("weight")]
    assert sizes == [(100, 2352), (100, 100), (32, 100), (10, 32)]
    assert model(torch.rand(5, 3, 28, 28)).shape == (5, 10)
    assert MLP(4, inputs=3 * 32 * 32, hidden=(8,))(torch.rand(5, 3, 32, 32)).shape == (5, 4)
    assert (model.body(torch.rand(5, 3, 28, 28)) >= 0).all()


# The receptive field of the biased networks of ReBias


def reach_of(body, size):
    """Return the side of the receptive field of one place in the last feature map."""
    x = torch.rand(1, 3, size, size, requires_grad=True)
    out = body(x)
    out[0, :, out.shape[2] // 2, out.shape[3] // 2].sum().backward()
    rows = x.grad.abs().sum((0, 1, 3)).nonzero()
    return int(rows.max() - rows.min()) + 1


def test_a_bagnet_sees_five_pixels():
    torch.manual_seed(0)
    model = BUILTIN["bagnet18"](classes=10).eval()
    seen = []
    model.layer4.register_forward_hook(lambda m, args, out: seen.append(out))
    assert model(torch.rand(2, 3, 32, 32)).shape == (2, 10)
    assert seen[0].shape == (2, 512, 4, 4)

    def body(x):
        model(x)
        return seen[-1]

    assert reach_of(body, 32) == 5


@pytest.mark.parametrize("name", ["convnet", "flatnet"])
def test_with_kernel_one_a_network_sees_single_pixels(name):
    torch.manual_seed(0)
    model = BUILTIN[name](classes=10, kernel=1).eval()
    assert model(torch.rand(2, 3, 28, 28)).shape == (2, 10)
    assert reach_of(model.body, 28) == 1


def test_the_biased_network_of_rebias_sees_every_pixel():
    """With strides a network of kernels of size 1 sees 16 of 784 pixels."""
    seen = {}
    for name in ("convnet", "flatnet"):
        x = torch.rand(1, 3, 28, 28, requires_grad=True)
        BUILTIN[name](classes=10, kernel=1).eval()(x).square().sum().backward()
        seen[name] = int(x.grad.abs().sum(1).gt(0).sum())
    assert seen == {"convnet": 16, "flatnet": 784}


@pytest.mark.parametrize("name", ["convnet", "flatnet"])
def test_a_unit_network_ends_in_a_tanh_and_features_of_length_1(name):
    model = BUILTIN[name](classes=10, width=4, unit=True).eval()
    kinds = [type(m) for m in model.body.modules() if isinstance(m, nn.ReLU | nn.Tanh)]
    assert kinds == [nn.ReLU] * (len(kinds) - 1) + [nn.Tanh]
    x = torch.rand(2, 3, 28, 28)
    pooled = model.body(x).mean((2, 3))
    length = pooled.square().sum(1, keepdim=True).sqrt()
    torch.testing.assert_close(model(x), model.head(pooled / length))


def test_a_relu_first_network_has_the_weights_of_convnet_in_another_order():
    ours, usual = BUILTIN["relu_first"](classes=10), ConvNet(10)
    assert [p.shape for p in ours.parameters()] == [p.shape for p in usual.parameters()]
    order = [type(m) for m in ours.body[0]]
    assert order == [nn.Conv2d, nn.ReLU, nn.BatchNorm2d]
    x = torch.rand(2, 3, 28, 28)
    torch.testing.assert_close(ours(x), ours.head(ours.body(x).mean((2, 3))))


def test_a_flatnet_keeps_the_size_of_its_input():
    model = BUILTIN["flatnet"](classes=10)
    assert model.body(torch.rand(1, 3, 28, 28)).shape == (1, 128, 28, 28)
