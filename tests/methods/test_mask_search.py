"""The sparsity loss is the same whether a kernel adds the logits up with the mask or not."""

import copy
import types

import pytest
import torch

from toys import TinyNet
from unspur import masks
from unspur.data.batches import Batch
from unspur.masks import layers
from unspur.methods import MaskSearch


def batch():
    g = torch.Generator().manual_seed(0)
    images, index = torch.rand(8, 3, 8, 8, generator=g), torch.arange(8)
    return Batch(images, index % 2, index, index % 3 == 0, torch.tensor(5))


def search(penalty):
    torch.manual_seed(0)
    model = TinyNet()
    masks.attach(model, seed=3)
    method = MaskSearch(model, head="head", sparsity=0.01, penalty=penalty)
    masks.follow(method, torch.tensor(5))
    return method.train()


def in_one_kernel(calls):
    """Return what the GPU kernel computes: the masked weight, and sums of blocks of its logits."""

    def sample(weight, logits, step, first, second, on_logit):
        calls.append(len(calls))
        mask = next(m for m in calls.masks if m.logits is logits)
        plain = layers.LearnedMask.forward(mask, weight.clone().requires_grad_())
        return plain, torch.stack([block.sum() for block in logits.flatten().split(10)])

    return types.SimpleNamespace(sample=sample)


class Calls(list):
    """The calls of a kernel, and the masks it may be called for."""

    masks = ()


def losses_and_gradients(method):
    losses = method(batch(), "masks")
    sum(losses.values()).backward()
    return losses, [logits.grad for logits in method.logits]


@pytest.mark.parametrize(("penalty", "adds_up"), [("sum", True), ("absolute", False)])
def test_sums_of_a_kernel_give_the_same_penalty(monkeypatch, penalty, adds_up):
    expected, gradients = losses_and_gradients(search(penalty))
    method, calls = search(penalty), Calls()
    calls.masks = method.masks
    kernel = in_one_kernel(calls)
    fused = lambda weight, *_: None if weight.requires_grad else kernel  # noqa: E731
    monkeypatch.setattr(layers, "_fused", fused)
    seen = []
    penalty_of = method._penalty
    method._penalty = lambda: (
        seen.append([m.sums is not None for m in method.masks]) or penalty_of()
    )
    found, others = losses_and_gradients(method)
    assert calls
    assert seen == [[adds_up] * len(method.masks)]
    for name, loss in expected.items():
        torch.testing.assert_close(found[name], loss)
    for mine, theirs in zip(others, gradients, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_sums_are_those_of_one_step(monkeypatch):
    method, calls = search("sum"), Calls()
    calls.masks = method.masks
    kernel = in_one_kernel(calls)
    fused = lambda weight, *_: None if weight.requires_grad else kernel  # noqa: E731
    monkeypatch.setattr(layers, "_fused", fused)
    method(batch(), "masks")
    assert all(mask.sums is None for mask in method.masks)
    copy.deepcopy(method)  # a tensor with a gradient cannot be copied
    method.model(batch().x)
    with torch.no_grad():
        for logits in method.logits:
            logits += 1
    monkeypatch.setattr(layers, "_fused", lambda *_: None)
    moved = method(batch(), "masks")["sparsity"]
    total = 0.01 * sum(logits.sum() for logits in method.logits)
    torch.testing.assert_close(moved, total)
