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


def in_one_kernel(known):
    """Return what the GPU kernel computes: the masked weight, and sums of blocks of its logits."""

    def sample(weight, logits, step, first, second, on_logit):
        mask = next(m for m in known if m.logits is logits)
        plain = layers.LearnedMask.forward(mask, weight.clone().requires_grad_())
        return plain, torch.stack([block.sum() for block in logits.flatten().split(10)])

    return types.SimpleNamespace(sample=sample)


def losses_and_gradients(method):
    losses = method(batch(), "masks")
    sum(losses.values()).backward()
    return losses, [logits.grad for logits in method.logits]


@pytest.mark.parametrize(("penalty", "keeps"), [("sum", True), ("absolute", False)])
def test_sums_of_a_kernel_give_the_same_penalty(monkeypatch, penalty, keeps):
    expected, gradients = losses_and_gradients(search(penalty))
    method = search(penalty)
    kernel = in_one_kernel(method.masks)
    fused = lambda weight, *_: None if weight.requires_grad else kernel  # noqa: E731
    monkeypatch.setattr(layers, "_fused", fused)
    seen = []
    penalty_of = method._penalty
    method._penalty = lambda: (
        seen.append([m.sums is not None for m in method.masks]) or penalty_of()
    )
    found, others = losses_and_gradients(method)
    assert seen == [[keeps] * len(method.masks)]
    for name, loss in expected.items():
        torch.testing.assert_close(found[name], loss)
    for mine, theirs in zip(others, gradients, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_sums_are_those_of_one_step(monkeypatch):
    method = search("sum")
    kernel = in_one_kernel(method.masks)
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


def test_masks_with_costs_are_read_beside_sums(monkeypatch):
    def mixed():
        method = search("sum")
        method.masks[0].cost = torch.full_like(method.masks[0].logits, 2.0)
        method.masks[0].keeps_sums = False
        return method

    expected, gradients = losses_and_gradients(mixed())
    method = mixed()
    kernel = in_one_kernel(method.masks)
    fused = lambda weight, *_: None if weight.requires_grad else kernel  # noqa: E731
    monkeypatch.setattr(layers, "_fused", fused)
    found, others = losses_and_gradients(method)
    first, *rest = (logits.sum() for logits in method.logits)
    torch.testing.assert_close(found["sparsity"], 0.01 * (2 * first + sum(rest)))
    torch.testing.assert_close(found["sparsity"], expected["sparsity"])
    for mine, theirs in zip(others, gradients, strict=True):
        torch.testing.assert_close(mine, theirs)
