"""Masks in blocks have the bits of the plain operations, for every layout and both kinds of noise."""

import pytest
import torch

from toys import same
from unspur import masks, noise
from unspur.masks import blockwise
from unspur.training.numerics import one_thread

SHAPES = [(64,), (5, 64), (8, 3, 4, 4), (64, 3, 7, 7), (70, 300, 8, 8), (3, 30_016), (33, 2048)]


def learned(shape, on, channels_last=False):
    torch.manual_seed(0)
    weight = torch.randn(shape)
    if channels_last:
        weight = weight.to(memory_format=torch.channels_last)
    mask = masks.LearnedMask(
        weight, init=0.3, on=on, keep_zero=False, seed=2**40 + 5, stream=1003
    ).train()
    mask.logits.data.add_(torch.randn(shape))
    mask.step = torch.tensor(70_000)
    return weight, mask


def results(weight, mask, grad):
    out = mask(weight)
    (slope,) = torch.autograd.grad(out, mask.logits, grad)
    return {"sample": out.detach(), "slope": slope}


@pytest.mark.parametrize("on", ["logit", "probability"])
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("block", [1 << 10, noise.blocks.BLOCK])
def test_the_bits_are_those_of_the_plain_operations(shape, channels_last, on, block, monkeypatch):
    if channels_last and len(shape) != 4:
        pytest.skip("only images have channels")
    weight, mask = learned(shape, on, channels_last)
    grad = torch.randn(shape)
    assert blockwise.fits(weight, mask.logits)
    calls = []
    real = blockwise.sample
    monkeypatch.setattr(blockwise, "sample", lambda *a: calls.append(1) or real(*a))
    monkeypatch.setattr(noise.blocks, "BLOCK", block)
    with one_thread():
        found = results(weight, mask, grad)
        monkeypatch.setattr(blockwise, "fits", lambda *a: False)
        expected = results(weight, mask, grad)
    assert calls == [1]
    assert same(found, expected)
    assert found["slope"].stride() == found["sample"].stride() == weight.stride()
    assert 0 < float((found["sample"] == 0).double().mean()) < 1


def test_other_weights_use_the_plain_operations():
    weight, mask = learned((8, 8), "logit")
    logits = mask.logits
    assert blockwise.fits(weight, logits)
    others = [weight[:, :4], weight.double(), weight.T, weight.to("meta"), weight[:0], weight[0, 0]]
    assert not any(blockwise.fits(each, each) for each in others)
    assert not blockwise.fits(weight, logits.T)
    assert not blockwise.fits(torch.randn(7, 9), torch.randn(7, 9))  # numbers are left over
    with torch.device("meta"):
        assert blockwise.fits(weight, logits)


def test_a_weight_that_is_trained_gets_its_gradient():
    weight, mask = learned((8, 8), "logit")
    weight.requires_grad_()
    out = mask(weight)
    out.sum().backward()
    assert torch.equal(weight.grad, (out != 0).float())


def test_a_step_on_another_device_has_no_keys():
    assert noise.step_keys(3, torch.tensor(5), 7) == noise.step_keys(3, 5, 7)
    assert noise.step_keys(3, torch.tensor(5, device="meta"), 7) is None
