"""Units of a network and their removal: the outputs do not change."""

import copy

import pytest
import torch
from torch import nn

from channel_nets import ARCHITECTURES, ODD, RunningSum, WrittenWidth
from deploy_nets import Halves, Joined, Mobile, Sigmoids, SmallViT
from unspur.errors import ModelError
from unspur.masks.channels import removable, resize, slim, units
from unspur.masks.channels.cost import unit_costs
from unspur.masks.channels.shares import MultiplyAddCounter, keep_share, norms
from unspur.masks.channels.slim import silence
from unspur.masks.multiply_adds import multiply_adds, remaining_share, uses
from unspur.models.networks.convnet import ConvNet
from unspur.models.networks.resnet import ResNet18

NETS = {
    "convnet": lambda: ConvNet(5, width=6),
    "resnet18": lambda: ResNet18(5),
    "joined": Joined,
    "vit": SmallViT,
    "vit by hand": lambda: SmallViT(own=True),
    "mobile": Mobile,
    "sigmoids": Sigmoids,
}


def images(count=4, seed=0):
    return torch.randn(count, 3, 16, 16, generator=torch.Generator().manual_seed(seed))


def build_trained(name):
    """Build a network with batch-norm statistics as after training; its shifts leave constants."""
    torch.manual_seed(0)
    model = NETS[name]().eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.bias)
            nn.init.normal_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2)
            nn.init.uniform_(module.weight, 0.5, 2)
    return model.requires_grad_(False)


def half(channels, seed=1):
    return torch.rand(channels.count, generator=torch.Generator().manual_seed(seed)) < 0.5


def empty_rows(model, channels, dead_units):
    """Set the rows of units to zero, as masks on single weights may; keep biases and batch norm."""
    named = dict(model.named_parameters())
    for slot in channels.makers:
        rows = dead_units[slot.units.clamp(min=0)] & (slot.units >= 0)
        named[slot.name].index_fill_(slot.dim, rows.nonzero().squeeze(1), 0.0)


@pytest.mark.parametrize("how", [silence, empty_rows])
@pytest.mark.parametrize("name", NETS)
def test_removal_does_not_change_the_outputs(name, how):
    model = build_trained(name)
    channels = removable(model, images(2))
    how(model, channels, half(channels))
    x = 2 * images(8, seed=3)
    expected, before = model(x), sum(p.numel() for p in model.parameters())
    work = multiply_adds(model, x)
    done = slim(model, images(2))
    torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-5)
    assert sum(p.numel() for p in model.parameters()) < 0.75 * before
    assert multiply_adds(model, x) < 0.8 * work
    assert sum(gone for gone, _ in done.removed.values()) > 0.3 * channels.count


@pytest.mark.parametrize("name", ARCHITECTURES | ODD)
def test_removal_is_exact_on_usual_and_odd_architectures(name):
    torch.manual_seed(0)
    model = (ARCHITECTURES | ODD)[name]().eval().requires_grad_(False)
    channels = removable(model, images(2))
    empty_rows(model, channels, half(channels))
    x = 2 * images(8, seed=3)
    expected = model(x)
    done = slim(model, images(2))
    torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-5)
    assert sum(gone for gone, _ in done.removed.values()) >= 0.25 * channels.count


class Multiplied(nn.Module):
    """A depthwise convolution that makes two channels from each, and a transposed convolution in groups."""

    def __init__(self):
        super().__init__()
        self.a, self.twice = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 16, 3, groups=8)
        self.b, self.up = nn.Conv2d(16, 10, 1), nn.ConvTranspose2d(10, 4, 2, 2, groups=2)
        self.c, self.head = nn.Conv2d(4, 12, 3), nn.Linear(12, 5)

    def forward(self, x):
        x = self.twice(self.a(x).relu()).relu()
        return self.head(self.c(self.up(self.b(x).relu())).relu().mean((2, 3)))


def test_convolutions_in_groups_do_not_keep_other_layers_whole():
    torch.manual_seed(0)
    model = Multiplied().eval().requires_grad_(False)
    channels = removable(model, images(2))
    assert "c.weight" not in channels.unremovable
    empty_rows(model, channels, half(channels))
    x = 2 * images(8, seed=3)
    expected = model(x)
    slim(model, images(2))
    torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-5)
    assert model.c.out_channels < 12
    assert (model.twice.groups, model.up.out_channels) == (8, 4)


@pytest.mark.parametrize("how", [silence, empty_rows])
@pytest.mark.parametrize("name", NETS)
def test_every_group_keeps_a_multiple_of_channels(name, how):
    model, x = build_trained(name), 2 * images(8, seed=3)
    channels = removable(model, images(2))
    how(model, channels, half(channels))
    expected, bare = model(x), copy.deepcopy(model)
    fewer = slim(bare, images(2)).removed
    done = slim(model, images(2), multiple=4)
    torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-5)
    heads = {unit for each in channels.heads.values() for unit in each.tolist()}
    for group, (gone, count) in done.removed.items():
        if int(channels.groups[group][0]) in heads:
            assert gone == fewer[group][0]
        else:
            assert gone == count - min(count, -(-(count - fewer[group][0]) // 4) * 4)
    assert done.filled == sum(
        a - b for (a, _), (b, _) in zip(fewer.values(), done.removed.values(), strict=True)
    )


def test_padding_keeps_one_constant_to_carry_the_others():
    model = build_trained("sigmoids")
    channels = removable(model, images(2))
    dead_units = torch.zeros(channels.count, dtype=torch.bool)
    dead_units[channels.groups["a.weight"][:5]] = True
    empty_rows(model, channels, dead_units)
    x = images(8, seed=3)
    expected = model(x)
    done = slim(model, images(2))
    assert done.carried == 1
    assert done.removed["a.weight"] == (4, 8)
    torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-5)


def test_without_padding_constants_become_a_bias():
    model = build_trained("sigmoids")
    channels = removable(model, images(2))
    dead_units = torch.zeros(channels.count, dtype=torch.bool)
    dead_units[channels.groups["b.weight"][:5]] = True
    empty_rows(model, channels, dead_units)
    x = images(8, seed=3)
    expected = model(x)
    assert model.c.bias is None
    assert slim(model, images(2)).removed["b.weight"] == (5, 8)
    assert model.c.bias is not None
    torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-5)


def test_units_that_no_layer_reads_are_removed():
    model = build_trained("convnet")
    model.body[1][0].weight[:, :3] = 0.0
    x = images(8, seed=3)
    expected = model(x)
    assert slim(model, images(2)).removed["body.0.0.weight"] == (3, 6)
    torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-5)


def test_a_dead_layer_keeps_one_channel():
    model = build_trained("convnet")
    model.body[1][0].weight.zero_()
    x = images(8, seed=3)
    expected = model(x)
    slim(model, images(2))
    assert min(p.numel() for p in model.parameters()) > 0
    torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-5)


def test_without_dead_units_nothing_changes():
    model = build_trained("joined")
    before = {k: t.clone() for k, t in model.state_dict().items()}
    assert all(gone == 0 for gone, _ in slim(model, images(2)).removed.values())
    assert all(torch.equal(t, before[k]) for k, t in model.state_dict().items())


def test_unremovable_channels_have_a_reason():
    kept = units(build_trained("vit"), images(2)).unremovable
    assert "output of the model" in kept["head.weight"]
    assert "patches.weight" in kept
    assert "blocks.0.fc1.weight" not in kept


def test_a_residual_stream_is_one_group():
    channels = units(ResNet18(5).eval(), images(2))
    stem = channels.groups["conv1.weight"]
    rows = {s.name: s.units for s in channels.makers}
    assert torch.equal(rows["layer1.0.conv2.weight"], stem)
    assert torch.equal(rows["layer1.1.conv2.weight"], stem)
    assert not set(rows["layer1.0.conv1.weight"].tolist()) & set(stem.tolist())


class Shuffled(Halves):
    """A network that uses the two halves of its channels differently."""

    def forward(self, x):
        left, right = self.a(x).chunk(2, dim=1)
        return self.head((self.b(left) + self.b(right.flip(2)) * 2).relu().mean((2, 3)))


def test_channels_that_the_models_code_relies_on_stay():
    channels = removable(WrittenWidth().eval(), images(2))
    assert list(channels.groups) == ["b.weight"]
    assert "own code" in channels.unremovable["a.weight"]
    assert "cumsum" in removable(RunningSum().eval(), images(2)).unremovable["a.weight"]


def test_a_weight_used_twice_keeps_its_function():
    torch.manual_seed(0)
    model = Shuffled().eval().requires_grad_(False)
    channels = removable(model, images(2))
    silence(model, channels, half(channels))
    x = images(8, seed=3)
    expected = model(x)
    slim(model, images(2))
    torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-5)


def test_slim_weights_load_into_a_new_model():
    for name in ("joined", "vit", "vit by hand", "mobile"):
        model = build_trained(name)
        channels = removable(model, images(2))
        silence(model, channels, half(channels))
        done = slim(model, images(2))
        fresh = NETS[name]().eval()
        resize(fresh, model.state_dict(), done.heads)
        x = images(8, seed=3)
        torch.testing.assert_close(fresh(x), model(x), rtol=0, atol=0)


def test_weights_of_another_model_are_refused():
    with pytest.raises(ModelError, match="no layer 'other'"):
        resize(Joined(), {"other.weight": torch.zeros(1)}, {})


# Costs


def test_multiply_adds_of_the_small_network():
    model = ConvNet(5, width=6)
    convs = 8 * 8 * 6 * 3 * 16 + 4 * 4 * 12 * 6 * 16 + 2 * 2 * 24 * 12 * 16
    assert multiply_adds(model, images(2)) == convs + 24 * 5
    names = [name for name, p in model.named_parameters() if p.dim() > 1]
    times = uses(model, images(2), names)
    assert [times[name] for name in names] == [64, 16, 4, 1]
    every = {name: torch.ones(p.shape, dtype=torch.bool) for name, p in model.named_parameters()}
    every = {name: every[name] for name in names}
    assert remaining_share(every, times) == 1.0
    every["body.0.0.weight"][:] = False
    assert remaining_share(every, times) == pytest.approx(1 - 8 * 8 * 6 * 3 * 16 / (convs + 120))


def test_units_cost_half_of_the_weights_between_them():
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 2))
    channels = units(model, torch.randn(2, 4))
    costs = unit_costs(channels, {n: p.shape for n, p in model.named_parameters()})
    assert costs.tolist() == [(4 + 6) / 2] * 3 + [(3 + 2) / 2] * 6


@pytest.mark.parametrize("spread", ["global", "layer"])
@pytest.mark.parametrize("share", [0.2, 0.5, 1.0])
@pytest.mark.parametrize("name", ["convnet", "mobile"])
def test_units_fit_into_a_share_of_the_multiply_adds(name, share, spread):
    model = build_trained(name)
    channels = units(model, images(2))
    counter = MultiplyAddCounter.of(model, channels, images(2))
    keep = keep_share(norms(model, channels), counter, share, spread=spread)
    assert counter(torch.ones_like(keep)) == pytest.approx(
        multiply_adds(model, images(2)), rel=1e-6
    )
    assert 0.5 * share < counter(keep) / counter(torch.ones_like(keep)) <= share
    assert all(bool(keep[members].any()) for members in channels.groups.values())
    thin = copy.deepcopy(model)
    silence(thin, channels, ~keep)
    slim(thin, images(2))
    assert multiply_adds(thin, images(2)) == pytest.approx(counter(keep), rel=1e-6)


def test_norms_are_the_norms_of_the_rows():
    model = build_trained("joined")
    channels = units(model, images(2))
    found = norms(model, channels)[channels.groups["third.weight"]]
    expected = model.third.weight.flatten(1).norm(dim=1)
    torch.testing.assert_close(found, expected / expected.mean())
