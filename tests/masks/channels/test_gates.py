"""Masks on whole channels: one logit for all coupled channels, the same functions as for weights."""

import pytest
import torch
from torch import nn

from deploy_nets import Joined, SmallViT
from unspur import masks
from unspur.data.batches import Batch
from unspur.errors import MaskError
from unspur.masks.channels import slim
from unspur.masks.channels.gates import ChannelMask
from unspur.masks.multiply_adds import multiply_adds
from unspur.masks.verbs import FixedMask
from unspur.methods import MaskSearch
from unspur.models.networks.convnet import ConvNet
from unspur.models.networks.resnet import ResNet18
from unspur.training import losses

X = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def attached(model, **how):
    masks.attach(model, unit="channel", example=X[:2], **how)
    return model


def random_logits(model, seed=0):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for logits in masks.logits(model).values():
            logits.copy_(torch.randn(logits.shape, generator=g))


def test_every_channel_has_one_logit_and_classes_and_pixels_have_none():
    model = attached(ConvNet(5, width=6))
    assert {k: len(v) for k, v in masks.logits(model).items()} == {
        "body.0.0.weight": 6,
        "body.1.0.weight": 12,
        "body.2.0.weight": 24,
    }


def test_coupled_layers_share_their_logits():
    model = attached(ResNet18(5))
    stem = masks.logits(model)["conv1.weight"]
    for norm in (model.bn1, model.layer1[0].bn2, model.layer1[1].bn2):
        gates = [m for m in norm.modules() if isinstance(m, ChannelMask)]
        assert len(gates) == 2  # its scale and its shift
        assert all(gate.gate.logits is stem for gate in gates)
    assert len(masks.logits(model)) == 12


def test_a_closed_channel_is_zero_and_an_open_one_untouched():
    torch.manual_seed(0)
    model = ConvNet(5, width=6).eval()
    nn.init.normal_(model.body[0][1].bias)
    plain = model.body[0](X)
    attached(model)
    with torch.no_grad():
        masks.logits(model)["body.0.0.weight"][:2] = -1.0
    out = model.body[0](X)
    assert bool((out[:, :2] == 0).all())
    assert torch.equal(out[:, 2:], plain[:, 2:])


def test_a_step_has_one_sample_shared_by_scale_and_shift():
    model = ConvNet(5, width=6).train()
    nn.init.ones_(model.body[0][1].bias)
    attached(model)
    step = torch.tensor(0)
    masks.follow(model, step)
    norm = model.body[0][1]
    seen = []
    for _ in range(20):
        assert torch.equal(norm.weight, norm.bias)
        seen.append(tuple(norm.weight.tolist()))
        step += 1
    assert len(set(seen)) > 5
    step.zero_()
    assert tuple(norm.weight.tolist()) == seen[0]


@pytest.mark.parametrize("make", [lambda: ConvNet(5, width=6), Joined, SmallViT])
def test_hardened_masks_can_be_removed_permanently(make):
    torch.manual_seed(0)
    model = attached(make()).eval()
    random_logits(model)
    learned = model(X)
    keep = masks.harden(model)
    assert not any(isinstance(m, ChannelMask) for m in model.modules())
    torch.testing.assert_close(model(X), learned, rtol=0, atol=1e-5)
    masks.bake(model)
    before = multiply_adds(model, X)
    expected = model(X).detach()
    slim(model, X[:2])
    torch.testing.assert_close(model(X).detach(), expected, rtol=0, atol=1e-5)
    assert multiply_adds(model, X) < 0.85 * before
    weights = {name: t for name, t in keep.items() if t.dim() > 1}
    assert masks.density(weights) < 0.9


def test_fixed_channels_stay_zero_when_the_rest_is_trained():
    torch.manual_seed(0)
    model = attached(ConvNet(5, width=6))
    random_logits(model)
    keep = masks.harden(model)
    masks.bake(model)
    masks.apply(model, keep, drop=0.2)
    drops = {m.drop for m in model.modules() if isinstance(m, FixedMask)}
    assert drops == {0.0, 0.2}
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        model(X).square().mean().backward()
        optimiser.step()
    masks.bake(model)
    for name, kept in keep.items():
        assert bool((model.get_parameter(name)[~kept] == 0).all())


def test_the_search_trains_the_logits_and_nothing_else():
    torch.manual_seed(0)
    model = attached(ConvNet(5, width=6)).train()
    search = MaskSearch(model, head="head", sparsity=0.0, align=0.0)
    (player,) = search.players()
    assert sum(p.numel() for p in player.parameters) == 6 + 12 + 24
    y = torch.arange(4) % 5
    batch = Batch(X, y, torch.arange(4), y > 1, torch.tensor(0))
    sum(search(batch, "masks").values()).backward()
    assert all(bool((p.grad != 0).any()) for p in player.parameters)
    assert all(p.grad is None for n, p in model.named_parameters() if "logits" not in n)


def test_the_sparsity_loss_counts_weights_or_multiply_adds():
    model = attached(ConvNet(5, width=6))
    search = MaskSearch(model, head="head", sparsity=1.0, align=0.0)
    total = sum(float(mask.cost.sum()) for mask in search.masks)
    weights = sum(p.numel() for p in ConvNet(5, width=6).parameters() if p.dim() > 1)
    # Half of the weights between pixels or classes and a unit count for the unit.
    ends = (6 * 3 * 16 + 24 * 5) / 2
    assert total == pytest.approx(weights - ends)
    heavy = attached(ConvNet(5, width=6), weigh="macs")
    first, *_, last = (float(m.cost.mean()) for m in masks.learned(heavy).values())
    plain_first, *_, plain_last = (float(m.cost.mean()) for m in search.masks)
    assert first / last > 2 * plain_first / plain_last
    assert sum(float(m.cost.sum()) for m in masks.learned(heavy).values()) == pytest.approx(total)


def test_single_weights_can_be_weighed_by_multiply_adds_too():
    model = ConvNet(5, width=6)
    masks.attach(model, weigh="macs", example=X[:2])
    found = masks.learned(model)
    ratio = found["body.0.0.weight"].cost / found["body.2.0.weight"].cost
    assert float(ratio) == pytest.approx(64 / 4)


def test_costs_multiply_the_logits():
    logits = [torch.tensor([1.0, -2.0]), torch.tensor([3.0])]
    costs = [torch.tensor([10.0, 1.0]), None]
    assert float(losses.sparsity(logits, costs=costs)) == 10 - 2 + 3
    assert float(losses.sparsity(logits, kind="absolute", costs=costs)) == 10 + 2 + 3


def test_an_error_says_what_cannot_be_masked():
    with pytest.raises(MaskError, match="example"):
        masks.attach(ConvNet(5, width=6), unit="channel")
    with pytest.raises(MaskError, match="no channels that can be removed"):
        masks.attach(nn.Sequential(nn.Flatten(), nn.Linear(768, 5)), unit="channel", example=X[:2])


def test_checkpoints_hold_the_shared_logits():
    model = attached(ConvNet(5, width=6))
    random_logits(model)
    other = attached(ConvNet(5, width=6))
    other.load_state_dict(model.state_dict())
    for name, logits in masks.logits(model).items():
        assert torch.equal(masks.logits(other)[name], logits)
