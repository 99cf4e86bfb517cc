"""Finding the classifier head of a model and the features that enter it."""

import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from unspur import masks
from unspur.errors import ModelError
from unspur.models.head import Tap, check_outputs, find_head
from unspur.models.networks.convnet import ConvNet
from unspur.models.networks.mlp import MLP
from unspur.models.networks.resnet import ResNet18

MODELS = [
    pytest.param(lambda: ConvNet(4, width=4), "head", 16, id="convnet"),
    pytest.param(lambda: MLP(4), "head", 32, id="mlp"),
    pytest.param(lambda: ResNet18(4), "fc", 512, id="resnet18"),
]


@pytest.fixture(autouse=True)
def same_weights():
    """Models start from the same weights in every run."""
    torch.manual_seed(0)


def images(size=3):
    return torch.rand(size, 3, 28, 28, generator=torch.Generator().manual_seed(0))


class HeadFirst(nn.Module):
    """A network whose head is registered first, and another linear layer last."""

    def __init__(self):
        super().__init__()
        self.classify = nn.Linear(6, 4)
        self.unused = nn.Linear(4, 4)
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(3 * 28 * 28, 6))

    def forward(self, x):
        return self.classify(torch.tanh(self.body(x)))


class Pair(HeadFirst):
    def forward(self, x):
        features = self.body(x)
        return self.classify(features), features


class Nested(nn.Module):
    """A network whose head is inside a container."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"last": nn.Linear(9, 4)})

    def forward(self, x):
        return self.layers["last"](x[:, 0, :3, :3].flatten(1))


@pytest.mark.parametrize(("build", "head", "width"), MODELS)
def test_the_head_of_our_models(build, head, width):
    model = build()
    assert find_head(model, images()) == head
    assert model.get_submodule(head).in_features == width


def test_the_head_need_not_be_registered_last():
    assert find_head(HeadFirst(), images()) == "classify"


def test_a_nested_head_has_its_full_name():
    assert find_head(Nested(), images()) == "layers.last"
    model = nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(2352, 5), nn.Linear(5, 4)))
    assert find_head(model, images()) == "1.1"


def test_the_head_of_a_masked_model():
    model = ConvNet(4, width=4)
    masks.attach(model)
    assert find_head(model, images()) == "head"


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        nn.Sequential(nn.Flatten(), nn.Linear(2352, 4), nn.Softmax(dim=1)),
    ],
    ids=["no linear layer", "softmax after the head"],
)
def test_a_model_without_a_head_is_refused(model):
    with pytest.raises(ModelError, match=r"no nn\.Linear returns the model's output.*head="):
        find_head(model, images())


def test_a_model_that_returns_a_tuple_is_refused():
    with pytest.raises(ModelError, match="returns tuple; wrap it so that it returns logits"):
        find_head(Pair(), images())


@pytest.mark.parametrize("training", [True, False])
def test_finding_the_head_does_not_change_the_model(training):
    model = ConvNet(4, width=4).train(training)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    find_head(model, images())
    check_outputs(model, images(), 4)
    assert model.training is training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(m._forward_hooks for m in model.modules())


def test_hooks_and_mode_are_restored_when_the_model_fails():
    model = nn.Sequential(nn.Flatten(), nn.Linear(7, 4))
    with pytest.raises(RuntimeError):
        find_head(model, images())
    assert model.training
    assert not any(m._forward_hooks for m in model.modules())
    with pytest.raises(ModelError, match=r"cannot take images of shape \(3, 28, 28\)"):
        check_outputs(model, images(), 4)
    assert model.training


@pytest.mark.parametrize(("build", "head", "width"), MODELS)
@pytest.mark.parametrize("training", [True, False])
def test_tap_returns_logits_and_the_features_of_the_head(build, head, width, training):
    model = build().train(training)
    expected = model(images())
    logits, features = Tap(model, head)(images())
    assert features.shape == (3, width)
    assert torch.equal(logits, expected)
    torch.testing.assert_close(model.get_submodule(head)(features), logits)


def test_tap_passes_gradients_to_the_features():
    model = HeadFirst()
    _, features = Tap(model, "classify")(images())
    features.sum().backward()
    assert model.body[1].weight.grad.abs().max() > 0
    assert model.classify.weight.grad is None


def test_tap_returns_the_features_of_the_last_call():
    tap = Tap(ConvNet(4, width=4).eval(), "head")
    first = tap(images(2))[1].clone()
    tap(images(5))
    assert not tap.seen  # no reference to the autograd graph is kept
    assert torch.equal(tap(images(2))[1], first)


@torch.no_grad()
def test_tap_keeps_the_features_of_one_pass_at_most():
    """Passes over all images call the model without the wrapper."""
    model = ConvNet(4, width=4).eval()
    tap, kept = Tap(model, "head"), []
    model.head.register_forward_pre_hook(lambda layer, args: kept.append(weakref.ref(args[0])))
    for _ in range(5):
        model(images(2))
    assert [ref() is not None for ref in kept] == [False] * 4 + [True]
    assert len(tap.seen) == 1


def test_tap_names_the_linear_layers_when_the_head_is_unknown():
    with pytest.raises(ModelError, match=r"no layer 'fc'.*classify, unused, body\.1"):
        Tap(HeadFirst(), "fc")


def test_tap_says_that_the_head_is_not_used():
    with pytest.raises(ModelError, match=r"does not call its layer 'unused'.*classify, unused"):
        Tap(HeadFirst(), "unused")(images())


def test_check_outputs_warns_of_random_predictions():
    class Forgetful(nn.Module):
        def __init__(self, always):
            super().__init__()
            self.head, self.always = nn.Linear(3 * 28 * 28, 4), always

        def forward(self, x):
            x -= 0.5  # the second call must not see a changed input
            return self.head(F.dropout(x.flatten(1), training=self.always or self.training))

    check_outputs(Forgetful(False), images(), 4)
    with pytest.warns(UserWarning, match=r"other outputs each time.*training=self\.training"):
        check_outputs(Forgetful(True), images(), 4)


def test_check_outputs_accepts_one_logit_for_each_class():
    check_outputs(HeadFirst(), images(), 4)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (HeadFirst(), r"returns \(3, 4\) for 3 images of 10 classes; it must return \(3, 10\)"),
        (Pair(), r"returns tuple; wrap it so that it returns logits"),
        (nn.Identity(), r"returns \(3, 3, 28, 28\)"),
    ],
    ids=["classes", "tuple", "images"],
)
def test_check_outputs_says_what_is_wrong(model, text):
    with pytest.raises(ModelError, match=text):
        check_outputs(model, images(), 10)
