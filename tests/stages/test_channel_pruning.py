"""Complete runs with channel masks (learned, a fixed share, by magnitude); slim models score the same."""

from pathlib import Path

import pytest
import torch

import toys
from unspur import masks, recipes, runs, stages
from unspur.data.batches import Batch
from unspur.errors import RecipeError
from unspur.masks.channels import slim
from unspur.masks.multiply_adds import multiply_adds
from unspur.methods import MaskSearch
from unspur.models import builder
from unspur.training.fit_options import FitOptions, Optimiser
from unspur.training.loop import fit
from unspur.training.sampling import Passes

WIDTH = {"width": 0.25}
CHANNEL = ("prune.unit=channel", "finetune.drop=0.1", "mine.how=oracle")


def run(tmp_path, *changes):
    network = builder("convnet", 2, {"width": 8})
    context = toys.context(tmp_path, [*CHANNEL, *changes], builder=network)
    return context, *stages.run(context)


@pytest.mark.parametrize(
    "changes",
    [
        ("prune.sparsity=1e-6",),
        ("prune.cut=share", "prune.keep=0.4", "prune.weigh=macs"),
        ("prune.how=magnitude", "prune.keep=0.4"),
        ("prune.how=random", "prune.keep=0.4", "prune.spread=layer"),
    ],
)
def test_a_run_with_channel_masks_gives_a_network_that_can_be_slimmed(tmp_path, changes):
    context, results, scores = run(tmp_path, *changes)
    model = context.network(results.weights("finetune")).eval()
    before, expected = multiply_adds(model, context.probe), model(context.probe)
    slim(model, context.probe)
    torch.testing.assert_close(model(context.probe), expected, rtol=0, atol=1e-5)
    density = scores.facts["density"]
    assert multiply_adds(model, context.probe) / before <= density["macs"] + 1e-6
    assert set(density["layers"]) == {f"body.{i}.0.weight" for i in range(3)} | {"head.weight"}
    if len(changes) > 1:
        assert 0.2 < density["macs"] <= 0.4
    assert "body.0.1.bias" in results.masks


MOBILE = """
from test_mobile_nets import mobilenet_v3

def build(classes):
    model = mobilenet_v3()
    model.head = type(model.head)(24, classes)
    return model
"""


@pytest.mark.parametrize("name", ["mobilenet_v2", "mobilenet_v3"])
def test_a_mobile_network_is_pruned_and_slimmed(tmp_path, name, monkeypatch):
    """These have batch norm, depthwise convolutions and, in version 3, squeeze and excite and hard swish."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "masks" / "channels"))
    (tmp_path / "mobile.py").write_text(MOBILE)
    own = name == "mobilenet_v3"
    network = builder(f"{tmp_path}/mobile.py:build" if own else name, 2, {} if own else WIDTH)
    changes = [*CHANNEL, "prune.cut=share", "prune.keep=0.4", "prune.weigh=macs"]
    changes += ["pretrain.steps=5", "prune.steps=5", "finetune.steps=5", "finetune.iterates=[]"]
    context = toys.context(tmp_path, changes, builder=network)
    results, scores = stages.run(context)
    model = context.network(results.weights("finetune")).eval()
    before, expected = multiply_adds(model, context.probe), model(context.probe)
    size = sum(p.numel() for p in model.parameters())
    slim(model, context.probe)
    torch.testing.assert_close(model(context.probe), expected, rtol=0, atol=1e-5)
    assert multiply_adds(model, context.probe) <= 0.41 * before
    assert sum(p.numel() for p in model.parameters()) < 0.8 * size
    assert scores.facts["density"]["macs"] <= 0.4


def test_the_run_folder_of_a_slim_model_can_be_loaded(tmp_path):
    context, results, scores = run(tmp_path / "store", "prune.cut=share", "prune.keep=0.3")
    runs.save(context, results, scores, tmp_path / "out")
    model = runs.load(tmp_path / "out")
    expected = context.network(results.weights("finetune")).eval()(context.probe)
    images = context.splits.train.take(torch.tensor([0, len(context.splits.train) - 1]))
    torch.testing.assert_close(model(images), expected)


def test_a_step_with_channel_masks_waits_for_nothing():
    model = builder("convnet", 2, {"width": 8}).build(0)
    x = torch.randn(4, 3, 8, 8)
    masks.attach(model, unit="channel", example=x)
    step = torch.tensor(3)
    search = MaskSearch(model, head="head", sparsity=1e-6)
    masks.follow(search, step)
    y = torch.tensor([0, 1, 0, 1])
    batch = Batch(x, y, torch.arange(4), y > 0, step)
    with toys.NoSync():
        sum(search(batch, "masks").values()).backward()


def test_resuming_a_search_of_channel_masks_gives_the_same_masks():
    splits = toys.shapes_set(seed=1)

    def search(checkpointer):
        model = builder("convnet", 2, {"width": 8}).build(0)
        masks.attach(model, unit="channel", example=splits.train.images[:2] / 255)
        search = MaskSearch(model, head="head", sparsity=1e-6)
        plan = FitOptions(steps=10, optimiser=Optimiser(rate=0.1), checkpoint_every=7)
        order = Passes(torch.arange(len(splits.train)), batch=32, seed=0)
        fit(search, toys.resident(splits), order, plan, checkpointer=checkpointer)
        return {name: p.detach() for name, p in masks.logits(model).items()}

    checkpointer = toys.MemoryCheckpointer()
    whole = search(checkpointer)
    assert checkpointer.saved is not None
    resumed = search(checkpointer)  # from step 7
    assert toys.same(whole, resumed)
    assert not toys.same(whole, {name: torch.full_like(t, 1.5) for name, t in whole.items()})


@pytest.mark.parametrize("change", ["plan=control", "prune.how=grasp"])
def test_settings_that_channels_do_not_support_are_errors_before_training(tmp_path, change):
    with pytest.raises(RecipeError, match="channel"):
        run(tmp_path, change)
    assert not list(tmp_path.glob("mine-*"))


@pytest.mark.parametrize("name", ["cmnist/1pct", "cifar10c/5pct"])
def test_the_control_recipe_differs_only_in_the_masks(name):
    slim_, control, plain = (
        recipes.load(f"{name}-{kind}").model_dump()
        for kind in ("slim", "slim-magnitude", "unspur-1")
    )
    assert slim_["prune"]["keep"] == control["prune"]["keep"] == 0.3
    for other in (control, plain):
        changed = {k for k in slim_ if slim_[k] != other[k]}
        assert changed == {"name", "prune"}
