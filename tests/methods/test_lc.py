"""Compare LC with a slow reference: a plain loop over samples."""

import copy
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from toys import TinyNet
from unspur import noise
from unspur.methods import lc
from unspur.methods.lc import LC, PARTNER, TINY, WEIGHT
from unspur.testing.contract import tiny_batch


def build(**options):
    torch.manual_seed(0)
    return LC(TinyNet(), biased=TinyNet(), classes=2, **options).train()


def plain_prior(joint, y, beliefs, memory):
    """Update the table of (class, prediction); return p(class | prediction), sample by sample."""
    classes = len(joint)
    table = [[memory * float(joint[c][b]) for b in range(classes)] for c in range(classes)]
    for target, belief in zip(y.tolist(), beliefs.tolist(), strict=True):
        for b in range(classes):
            table[target][b] += (1 - memory) * belief[b] / len(y)
    rows = []
    for belief in beliefs.tolist():
        row = []
        for c in range(classes):
            total = 0.0
            for b in range(classes):
                column = sum(table[k][b] + TINY for k in range(classes))
                total += belief[b] * (table[c][b] + TINY) / column
            row.append(total)
        rows.append(row)
    return table, rows


def test_the_prior_equals_a_plain_loop():
    method, batch = build(memory=0.9), tiny_batch()
    beliefs = torch.softmax(method.biased(batch.x).detach(), 1)
    table, rows = plain_prior(method.joint.clone(), batch.y, beliefs, 0.9)
    found = method.prior(batch.y, beliefs)
    torch.testing.assert_close(found, torch.tensor(rows))
    torch.testing.assert_close(method.joint, torch.tensor(table))
    torch.testing.assert_close(found.sum(1), torch.ones(len(found)))


def test_the_loss_equals_a_plain_loop():
    method, batch = build(mix=False, tau=0.5), tiny_batch(size=8)
    beliefs = torch.softmax(method.biased(batch.x).detach(), 1)
    _, rows = plain_prior(method.joint.clone(), batch.y, beliefs, method.memory)
    logits = method.model(batch.x).tolist()
    total = 0.0
    for target, each, prior in zip(batch.y.tolist(), logits, rows, strict=True):
        corrected = [z + 0.5 * math.log(p) for z, p in zip(each, prior, strict=True)]
        total += math.log(sum(map(math.exp, corrected))) - corrected[target]
    method = build(mix=False, tau=0.5)
    assert float(method(batch, "model")["corrected"].detach()) == pytest.approx(total / 8, rel=1e-5)


def test_partners_are_of_the_same_class_and_the_other_group():
    method, batch = build(seed=3), replace(tiny_batch(), step=torch.tensor(5))
    suspect = torch.arange(32) % 3 == 0
    prior = torch.rand(32, 2)
    x, blended = method.mix_groups(batch, suspect, prior)
    draw = noise.uniform(3, 5, PARTNER, (32, 32))
    weight = noise.uniform(3, 5, WEIGHT, (32,)) / 2
    for i in range(32):
        fits = [j for j in range(32) if batch.y[j] == batch.y[i] and bool(suspect[j] != suspect[i])]
        j = max(fits, key=lambda j: float(draw[i, j]))
        expected = (1 - weight[i]) * batch.x[i] + weight[i] * batch.x[j]
        torch.testing.assert_close(x[i], expected)
        torch.testing.assert_close(blended[i], (1 - weight[i]) * prior[i] + weight[i] * prior[j])


def test_an_image_without_a_partner_is_not_mixed():
    method, batch = build(), tiny_batch()
    prior = torch.rand(32, 2)
    x, blended = method.mix_groups(batch, torch.zeros(32, dtype=torch.bool), prior)
    assert torch.equal(x, batch.x)
    assert torch.equal(blended, prior)


def test_a_bias_that_explains_the_label_makes_the_loss_small():
    """If prediction and class always agree, the corrected loss of a network with equal logits is small."""

    class Knows(nn.Module):
        def forward(self, x):
            return torch.stack([-x.mean((1, 2, 3)), x.mean((1, 2, 3))], 1) * 1000

    batch = tiny_batch(size=4)
    x = torch.stack([torch.full((3, 8, 8), v) for v in (-1.0, 1.0, -1.0, 1.0)])
    batch = replace(batch, x=x, y=torch.tensor([0, 1, 0, 1]))
    method = LC(
        nn.Sequential(nn.Flatten(), nn.Linear(192, 2)), biased=Knows(), classes=2, mix=False
    )
    with torch.no_grad():
        for parameter in method.model.parameters():
            parameter.zero_()
    for _ in range(2000):
        loss = method(batch, "model")["corrected"]
    assert float(loss.detach()) < 1e-4 < math.log(2)


def test_the_last_class_may_have_no_training_sample():
    model, batch = nn.Sequential(nn.Flatten(), nn.Linear(192, 3)), tiny_batch(size=8)
    inputs = SimpleNamespace(
        targets=batch.y,
        example=batch.x[:2],
        another_network=lambda purpose: copy.deepcopy(model),
        seed=lambda purpose: 0,
    )
    method = lc.build(model, inputs, lc.LCSettings())
    assert len(method.joint) == 3 > int(batch.y.max()) + 1
    assert all(loss.isfinite() for loss in method(batch, "model").values())
