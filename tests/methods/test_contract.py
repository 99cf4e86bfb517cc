"""What every method promises, checked over METHODS: a method added there is covered by its line.

A method takes the network and keyword arguments. Those it requires are looked up in `GIVEN`; a network
that must be prepared first (masks attached) is prepared by `PREPARE`.
"""

import inspect
from dataclasses import replace

import pytest
import torch
from torch import nn

from toys import MemoryCheckpointer, NoSync, TinyNet, resident, same, shapes_set
from unspur import masks
from unspur.data.batches import Batch, Preprocess
from unspur.data.streaming import Streaming
from unspur.methods import METHODS
from unspur.models import BUILTIN
from unspur.models.head import find_head
from unspur.training import metrics, sampling
from unspur.training.inputs import FitOptions, Optimiser, Training
from unspur.training.loop import Loop, fit, predict
from unspur.training.method import Method

SPLITS = shapes_set()
PLAN = FitOptions(steps=6, optimiser=Optimiser(rate=1e-2), log_every=3, checkpoint_every=3)


class Odd(nn.Module):
    """A user's own network: a nested head, functional layers, a parameter outside any layer."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1, 3, 1, 1))
        self.parts = nn.ModuleDict({"seen": nn.Linear(192, 12, bias=False)})
        self.out = nn.Sequential(nn.Flatten(), nn.Tanh(), nn.Linear(12, 2))

    def forward(self, x):
        return self.out(self.parts["seen"](torch.sin(x * self.scale).flatten(1)))


class Reader(nn.Module):
    """A transformer encoder over the rows of an image."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(24, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(24, 2)

    def forward(self, x):
        rows = x.permute(0, 2, 1, 3).flatten(2)
        return self.head(self.encoder(rows).mean(1))


NETWORKS = {
    "tiny": TinyNet,
    "odd": Odd,
    "transformer": Reader,
    "convnet": lambda: BUILTIN["convnet"](classes=2),
}
BIAS = SPLITS.bias["train"]
TARGETS = SPLITS.train.targets
GIVEN = {
    "sparsity": 1e-4,
    "targets": TARGETS,
    "counts": metrics.group_counts(TARGETS, BIAS, classes=2, biases=2),
}
MADE = {"head", "biased", "biased_head"}
PREPARE = {"mask-search": lambda model: masks.attach(model, init=0.5)}


def make(name, network="tiny", seed=0) -> Method:
    """A method of METHODS around a network."""
    torch.manual_seed(seed)
    model, biased = NETWORKS[network](), NETWORKS[network]()
    head = find_head(model, torch.rand(2, 3, 8, 8))
    known = {**GIVEN, "head": head, "biased": biased, "biased_head": head}
    if name in PREPARE:
        PREPARE[name](model)
    return METHODS[name](model, **{key: known[key] for key in required(METHODS[name])})


def required(method):
    """The keywords a method cannot do without, up through its bases."""
    names = {
        key
        for base in method.__mro__
        if "__init__" in vars(base) and issubclass(base, Method)
        for key, p in inspect.signature(base.__init__).parameters.items()
        if p.kind is p.KEYWORD_ONLY and p.default is p.empty
    }
    unknown = names - {*GIVEN, *MADE}
    assert not unknown, f"say in GIVEN what {method.__name__} gets as {sorted(unknown)}"
    return names


def batch(conflict=None, size=32):
    source = resident(SPLITS)
    made = source.batch(torch.arange(size), torch.tensor(0))
    bias = SPLITS.bias["train"][:size]
    return replace(made, conflict=made.conflict if conflict is None else conflict, bias=bias)


def told(method):
    """Bias labels for the methods that declare their use."""
    return BIAS if method.uses_bias_labels else None


def run(method, plan=PLAN, *, bias=None, checkpointer=None, steps=6, source=None):
    """A few steps of training on oversampled, augmented batches."""
    conflict = SPLITS.conflicting("train")
    bias = told(method) if bias is None else bias
    source = source or resident(SPLITS, augment="crop-flip", seed=3, bias=bias)
    order = sampling.Weighted(1 + 4 * conflict.double(), batch=32, seed=5)
    fit(method, source, order, replace(plan, steps=steps), checkpointer=checkpointer)
    return method


each_method = pytest.mark.parametrize("name", METHODS)


@pytest.mark.parametrize("network", NETWORKS)
@each_method
def test_it_can_be_made_for_any_network_and_trains_it(name, network):
    method, start = make(name, network), make(name, network)
    run(method, steps=2)
    for player, before in zip(method.players(), start.players(), strict=True):
        pairs = zip(player.parameters, before.parameters, strict=True)
        assert not all(torch.equal(a, b) for a, b in pairs), player.name


@each_method
def test_players_step_distinct_parameters_of_the_method(name):
    method = make(name)
    own = {id(p) for p in method.parameters()}
    stepped = [id(p) for player in method.players() for p in player.parameters]
    assert stepped
    assert len(stepped) == len(set(stepped))
    assert set(stepped) <= own
    names = [player.name for player in method.players()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("network", NETWORKS)
@each_method
def test_losses_are_named_finite_and_reach_every_player(name, network):
    method = make(name, network).train()
    for player in method.players():
        losses = method(batch(), player.name)
        assert losses
        assert "loss" not in losses  # the loop's name for their sum
        for key, loss in losses.items():
            assert isinstance(key, str)
            assert loss.shape == ()
            assert torch.isfinite(loss)
        total = torch.stack(list(losses.values())).sum()
        found = torch.autograd.grad(total, player.parameters, allow_unused=True)
        found = [g for g in found if g is not None]
        assert all(torch.isfinite(g).all() for g in found)
        assert any(g.abs().max() > 0 for g in found)


@pytest.mark.parametrize("conflict", [False, True], ids=["no suspects", "all suspects"])
@pytest.mark.parametrize("size", [1, 32])
@each_method
def test_losses_are_finite_in_odd_batches(name, conflict, size):
    method = make(name).train()
    for player in method.players():
        losses = method(batch(torch.full((size,), conflict), size), player.name)
        total = torch.stack(list(losses.values())).sum()
        assert torch.isfinite(total)
        found = torch.autograd.grad(total, player.parameters, allow_unused=True)
        assert all(torch.isfinite(g).all() for g in found if g is not None)


@each_method
def test_a_step_waits_for_nothing(name):
    order = sampling.Passes(torch.arange(240), batch=32, seed=5)
    method = make(name)
    source = resident(SPLITS, augment="crop-flip", bias=told(method))
    loop = Loop(Training(method, source, order, PLAN))
    with NoSync() as mode:
        loop.advance(torch.arange(32))
        loop.advance(torch.arange(32))
    assert mode.seen


@each_method
def test_all_that_training_changes_is_in_its_state(name):
    """Three steps, a checkpoint, and three more in a method made anew equal six at a stretch."""
    whole, checkpointer = run(make(name)), MemoryCheckpointer()
    run(make(name), replace(PLAN, checkpoint_every=3), checkpointer=checkpointer, steps=4)
    assert checkpointer.saved[1]["step"] == 3
    resumed = make(name, seed=1)
    assert not same(resumed.state_dict(), whole.state_dict())
    run(resumed, checkpointer=checkpointer)
    assert same(resumed.state_dict(), whole.state_dict())


@each_method
def test_its_state_goes_into_a_method_made_anew(name):
    method, fresh = run(make(name)), make(name, seed=1)
    fresh.load_state_dict(method.state_dict())
    assert same(fresh.state_dict(), method.state_dict())
    x = resident(SPLITS).preprocess(SPLITS.train.images[:16])
    assert torch.equal(fresh.eval().predict(x), method.eval().predict(x))


@each_method
def test_it_predicts_a_logit_a_class_and_changes_nothing(name):
    method = run(make(name)).eval()
    before = {k: v.clone() for k, v in method.state_dict().items()}
    logits = predict(method.predict, resident(SPLITS).plain())
    assert logits.shape == (240, 2)
    assert torch.isfinite(logits).all()
    assert same(method.state_dict(), before)


@each_method
def test_bias_labels_matter_only_where_declared(name):
    labels = BIAS
    shuffled = labels[torch.randperm(240, generator=torch.Generator().manual_seed(0))]
    assert not torch.equal(labels, shuffled)
    with_labels, permuted = (run(make(name), bias=b).state_dict() for b in (labels, shuffled))
    assert same(with_labels, permuted) is not METHODS[name].uses_bias_labels
    if not METHODS[name].uses_bias_labels:
        assert same(with_labels, run(make(name)).state_dict())


@each_method
def test_streamed_images_give_the_same_bits(name):
    method, streamed = make(name), make(name)
    source = Streaming(
        SPLITS.train,
        device=torch.device("cpu"),
        preprocess=Preprocess(),
        augment="crop-flip",
        seed=3,
        conflict=SPLITS.conflicting("train"),
        bias=told(method),
    )
    run(streamed, source=source)
    assert same(streamed.state_dict(), run(method).state_dict())


@each_method
def test_it_learns_two_groups(name):
    """Bars that stand or lie, with colours that say nothing: every method must learn the shape."""
    fair = shapes_set(conflicting=120, seed=3)
    torch.manual_seed(0)
    model, biased = Wide(), Wide()
    if name == "mask-search":
        run_fair(METHODS["erm"](model), fair)
        masks.attach(model)
    known = {**GIVEN, "targets": fair.train.targets, "biased": biased}
    known |= {"head": "head", "biased_head": "head", "sparsity": 0.0}
    method = METHODS[name](model, **{key: known[key] for key in required(METHODS[name])})
    run_fair(method, fair)
    test = resident(replace(fair, train=fair.test, bias={"train": fair.bias["test"]}))
    right = predict(method.eval().predict, test.plain()).argmax(1) == fair.test.targets
    for b in (0, 1):
        assert right[fair.bias["test"] == b].double().mean() > 0.9, f"bias {b}"


class Wide(nn.Module):
    """Enough of a network to tell standing bars from lying ones."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        return self.head(self.body(x).amax((2, 3)))


def run_fair(method, splits):
    order = sampling.Passes(torch.arange(240), batch=48, seed=5)
    source = resident(splits, bias=splits.bias["train"] if told(method) is not None else None)
    fit(method, source, order, replace(PLAN, steps=150))


def test_the_bias_check_bites():
    class Peeks(METHODS["erm"]):
        def forward(self, batch: Batch, player):
            return {"loss of bias": nn.functional.cross_entropy(self.model(batch.x), batch.bias)}

    labels = SPLITS.bias["train"]
    torch.manual_seed(0)
    first, second = Peeks(TinyNet()), Peeks(TinyNet())
    second.load_state_dict(first.state_dict())
    a, b = run(first, bias=labels).state_dict(), run(second, bias=1 - labels).state_dict()
    assert not same(a, b)


def test_a_method_must_say_what_it_minimises():
    class Empty(Method):
        pass

    with pytest.raises(NotImplementedError, match="Empty must say what it minimises"):
        Empty()(batch(), "model")
    with pytest.raises(NotImplementedError, match="Empty must say how it predicts"):
        Empty().predict(torch.zeros(1))
