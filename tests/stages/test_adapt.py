"""The adapt stage, which stages mix images, and the warm-up of the miner."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import toys
from toys import TinyNet, same
from unspur import stages
from unspur.data.batches import Batch
from unspur.data.mixing import Mixing
from unspur.methods import Amplified, Confident

MIXED = ("data.style=1.0", "data.mix=1.0", "data.spectrum=0.5")
ADAPTED = ("plan=unspur", "adapt.steps=12", "adapt.batch=16", *MIXED)


def who_mixes(folder, changes, monkeypatch):
    """Return the stages whose batches are mixed, by the seed that a source mixes with."""
    seen = set()
    plain = Mixing.__call__

    def watch(self, x, y, conflict, *, seed, step):
        if self.mix or self.style or self.spectrum:
            seen.add((seed, bool(conflict.any())))
        return plain(self, x, y, conflict, seed=seed, step=step)

    monkeypatch.setattr(Mixing, "__call__", watch)
    context = toys.context(folder, changes)
    stages.run(context)
    names = {
        context.seed(name): name for name in ("mine", "pretrain", "adapt", "prune", "finetune")
    }
    return {names[seed] for seed, _ in seen}, {names[seed] for seed, flags in seen if flags}


def test_every_stage_but_mining_mixes_images(tmp_path, monkeypatch):
    assert who_mixes(tmp_path, MIXED, monkeypatch)[0] == {"pretrain", "prune", "finetune"}


def test_a_plan_that_adapts_has_an_ordinary_model_without_mixing(tmp_path, monkeypatch):
    mixing, flagged = who_mixes(tmp_path, ADAPTED, monkeypatch)
    assert mixing == {"adapt", "prune", "finetune"}
    assert "adapt" in flagged  # suspects are preferred as partners there, too


def test_mixing_is_in_the_keys_of_exactly_the_stages_that_mix(tmp_path):
    before = stages.Run(toys.context(tmp_path)).keys
    after = stages.Run(toys.context(tmp_path, MIXED)).keys
    changed = {name for name in before if before[name].path != after[name].path}
    assert changed == {"pretrain", "prune", "finetune"}


def test_pruning_starts_from_the_adapted_network(tmp_path):
    context = toys.context(tmp_path, ADAPTED)
    results, scores = stages.run(context)
    adapted, pruned = results.weights("adapt"), results.weights("prune")
    masks = results.masks
    for name, keep in masks.items():
        assert torch.equal(pruned[name], adapted[name] * keep)
    assert not same(adapted, results.weights("pretrain"))
    assert scores.facts["ordinary"] is not None


@pytest.mark.parametrize("start", ["initial", "trained"])
def test_adapt_starts_from_the_configured_network(tmp_path, start):
    """With a tiny learning rate the adapted network still has the weights that it started from."""
    changes = (*ADAPTED, f"adapt.start={start}", "adapt.rate=1e-12", "adapt.steps=1")
    context = toys.context(tmp_path, changes)
    results, _ = stages.run(context)
    began = context.initial if start == "initial" else results.weights("pretrain")
    for name, tensor in results.weights("adapt").items():
        if name.endswith("weight"):
            torch.testing.assert_close(tensor, began[name], atol=1e-6, rtol=0)


def tiny_batch(step: int) -> Batch:
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(12, 3, 8, 8, generator=g), torch.arange(12) % 2
    index = torch.arange(12)
    return Batch(x=x, y=y, index=index, conflict=index < 0, step=torch.tensor(step))


@pytest.mark.parametrize("kind", [Confident, Amplified])
def test_the_miner_weights_all_samples_equally_during_the_warm_up(kind):
    torch.manual_seed(0)
    model = TinyNet().eval()
    options = {"eta": 0.5} if kind is Confident else {"q": 0.7}
    miner = kind(model, warm_up=5, **options)
    plain = F.cross_entropy(model(tiny_batch(4).x), tiny_batch(4).y)
    (warm,) = miner(tiny_batch(4), "model").values()
    torch.testing.assert_close(warm, plain)
    (after,) = miner(tiny_batch(5), "model").values()
    (without,) = kind(model, **options)(tiny_batch(5), "model").values()
    torch.testing.assert_close(after, without)
    assert not torch.allclose(after, plain)
