"""Masks on any module: the sample and its gradient, the four functions, what cannot be masked."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations

from golden_values import cases, close, floats
from unspur import masks, noise
from unspur.errors import MaskError
from unspur.masks.layers import FixedMask, LearnedMask, concrete, straight_through
from unspur.masks.reachable import reachable
from unspur.models.networks.convnet import ConvNet
from unspur.models.networks.mlp import MLP
from unspur.models.networks.resnet import ResNet18

MANY = 200_000


@pytest.fixture(autouse=True)
def same_weights():
    """Give models the same initial weights in every run."""
    torch.manual_seed(0)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def learned(weight, *, init=1.5, on="logit", keep_zero=False, seed=0, stream=noise.FIRST_WEIGHT):
    return LearnedMask(weight, init=init, on=on, keep_zero=keep_zero, seed=seed, stream=stream)


def random_logits(model, seed=0):
    """Set random logits; about half of the weights are kept."""
    generator = seeded(seed)
    with torch.no_grad():
        for parameter in masks.logits(model).values():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))


def close_share(found, expected, n):
    """Check that a share of n draws is within four standard deviations of its expectation."""
    assert abs(float(found) - expected) < 4 * math.sqrt(expected * (1 - expected) / n)


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


# The sample


def guarded(u0, u1):
    """Return the noise g as in the reference, with small constants inside the logarithms."""
    tiny = 1e-10
    return -torch.log(torch.log(u1 + tiny) / torch.log(u0 + tiny) + tiny)


def clamped(u0, u1):
    """Return the noise g with uniforms clamped away from 0 and 1, which is safe in every dtype."""
    u0, u1 = (u.clamp(1e-10, 1 - 2.0**-24) for u in (u0, u1))
    return -torch.log(torch.log(u1) / torch.log(u0))


GUMBEL = cases("dcwp_gumbel_released")
READINGS = [("probability", ""), ("logit", "logit_noise_")]
SAMPLES = [
    pytest.param(*case.values, make, id=f"{case.id}-{make.__name__}")
    for case in GUMBEL
    for make in (guarded, clamped)
    if make is guarded or case.values[0]["dtype"] == "float32"
]


def tolerance(inputs):
    return {} if inputs["dtype"] == "float64" else {"rtol": 1e-4, "atol": 2e-6}


@pytest.mark.parametrize(("on", "prefix"), READINGS)
@pytest.mark.parametrize(("inputs", "outputs", "make"), SAMPLES)
def test_sample_golden(inputs, outputs, make, on, prefix):
    dtype = getattr(torch, inputs["dtype"])
    u0, u1, c = (floats(inputs[name], dtype) for name in ("u0", "u1", "c"))
    logits = floats(inputs["logits"], dtype).requires_grad_()
    soft = concrete(logits, make(u0, u1), on=on, temperature=inputs["temperature"])
    hard = straight_through(soft)
    (grad,) = torch.autograd.grad((hard * c).sum(), logits)
    close(soft, outputs[f"{prefix}soft"], **tolerance(inputs))
    close(grad, outputs[f"{prefix}grad_logits"], **tolerance(inputs))
    assert hard.tolist() == floats(outputs[f"{prefix}hard"]).tolist()


@pytest.mark.parametrize(("inputs", "outputs", "make"), SAMPLES)
def test_soft_sample_golden_at_half_temperature(inputs, outputs, make):
    dtype = getattr(torch, inputs["dtype"])
    u0, u1, logits = (floats(inputs[name], dtype) for name in ("u0", "u1", "logits"))
    soft = concrete(logits, make(u0, u1), on="logit", temperature=0.5)
    close(soft, outputs["logit_noise_soft_temperature_0.5"], **tolerance(inputs))


@pytest.mark.parametrize(("inputs", "outputs"), GUMBEL)
def test_threshold_golden(inputs, outputs):
    """The released code keeps a logit of exactly 0; by default we do not."""
    logits = floats(inputs["logits"], getattr(torch, inputs["dtype"]))
    for keep_zero in (True, False):
        mask = learned(logits, keep_zero=keep_zero)
        mask.logits.data.copy_(logits)
        expected = floats(outputs["fixed_mask"]).bool()
        if not keep_zero:
            assert int((logits == 0).sum()) == 1
            expected = expected & (logits != 0)
        assert torch.equal(mask.keep(), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_straight_through_is_exactly_zero_or_one(dtype):
    soft = torch.rand(MANY, generator=seeded()).to(dtype)
    soft[:6] = torch.tensor([0.0, 1.0, 0.5, 1e-30, 1e-7, 1 - 1e-7]).to(dtype)
    hard = straight_through(soft)
    assert torch.equal(hard, (soft > 0.5).to(dtype))
    assert set(hard.tolist()) == {0.0, 1.0}


def test_straight_through_passes_the_gradient_of_the_soft_sample():
    logits = torch.randn(50, generator=seeded(), dtype=torch.float64).requires_grad_()
    g = torch.randn(50, generator=seeded(1), dtype=torch.float64)
    soft = concrete(logits, g, temperature=0.7)
    (grad,) = torch.autograd.grad(straight_through(soft).sum(), logits)
    torch.testing.assert_close(grad, (soft * (1 - soft) / 0.7).detach())


@pytest.mark.parametrize("init", [-4.0, -0.5, 0.0, 1.5, 3.0])
@pytest.mark.parametrize("on", ["logit", "probability"])
def test_a_weight_is_kept_with_its_probability(init, on):
    mask = learned(torch.ones(MANY), init=init, on=on)
    sample = mask(torch.ones(MANY)).detach()
    expected = sigmoid(init) if on == "logit" else sigmoid(sigmoid(init))
    assert set(sample.tolist()) <= {0.0, 1.0}
    close_share(sample.mean(), expected, MANY)


def test_the_gradient_of_a_weight_passes_only_where_it_is_kept():
    weight = torch.randn(40, generator=seeded()).requires_grad_()
    mask = learned(weight.detach(), init=0.0)
    sample = mask(weight)
    sample.sum().backward()
    assert torch.equal(weight.grad, (sample != 0).float())
    assert (mask.logits.grad != 0).all()
    assert torch.equal(mask.logits.grad.sign(), weight.detach().sign())


def test_train_samples_and_eval_thresholds():
    weight = torch.ones(1000)
    mask = learned(weight)
    mask.logits.data[:300] = -0.1
    assert mask.training
    sampled = mask(weight).detach()
    assert 0 < float(sampled[300:].mean()) < 1
    assert sampled[:300].sum() > 0
    expected = (torch.arange(1000) >= 300).float()
    assert torch.equal(mask.eval()(weight), expected)
    assert torch.equal(mask.train()(weight), sampled)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("training", [True, False])
def test_a_masked_weight_keeps_its_type(dtype, training):
    model = nn.Linear(6, 5).to(dtype).train(training)
    masks.attach(model)
    assert model.weight.dtype == dtype
    assert model(torch.ones(2, 6, dtype=dtype)).dtype == dtype


# Samples by step and seed


def test_the_sample_is_fixed_within_a_step_and_differs_between_steps():
    model = ConvNet(4, width=8)
    masks.attach(model)
    step = torch.tensor(0)
    masks.follow(model, step)
    first = model.head.weight != 0
    assert torch.equal(model.head.weight != 0, first)
    step += 1
    second = model.head.weight != 0
    assert not torch.equal(second, first)
    step -= 1
    assert torch.equal(model.head.weight != 0, first)


def test_the_step_tensor_sets_the_sample():
    model = nn.Sequential(nn.Linear(7, 9), nn.Linear(9, 7))
    nn.init.ones_(model[1].weight)
    masks.attach(model, seed=5, init=0.5)
    masks.follow(model, torch.tensor(12))
    u = noise.uniform(5, 12, noise.FIRST_WEIGHT + 1, (7, 9))
    assert torch.equal(model[1].weight != 0, 0.5 + noise.logistic(u) > 0)


def test_weights_of_the_same_shape_have_different_samples():
    model = nn.ModuleList(nn.Linear(20, 20) for _ in range(3))
    masks.attach(model)
    samples = [layer.weight != 0 for layer in model]
    assert not torch.equal(samples[0], samples[1])
    assert not torch.equal(samples[1], samples[2])


def test_the_seed_chooses_the_samples():
    def sample(seed):
        model = nn.Linear(30, 30)
        masks.attach(model, seed=seed)
        return model.weight != 0

    assert torch.equal(sample(3), sample(3))
    assert not torch.equal(sample(3), sample(4))


# attach on any module


class Odd(nn.Module):
    """A network with a conv1d, nested lists, and a linear weight used directly in the forward pass."""

    def __init__(self):
        super().__init__()
        self.wave = nn.Conv1d(3, 6, 5, padding=2)
        self.blocks = nn.ModuleList(
            [nn.ModuleList([nn.Linear(6, 6), nn.ModuleDict({"deep": nn.Linear(6, 6)})])]
        )
        self.norm = nn.LayerNorm(6)
        self.gain = nn.Parameter(torch.randn(6, 6))
        self.by_hand = nn.Linear(6, 4)

    def forward(self, x):
        x = self.wave(x).mean(2)
        for first, rest in self.blocks:
            x = self.norm(torch.tanh(rest["deep"](first(x))))
        return F.linear(x @ self.gain, self.by_hand.weight, self.by_hand.bias)


def encoder():
    layer = nn.TransformerEncoderLayer(16, 2, dim_feedforward=24, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2)


def cross_attention():
    return nn.MultiheadAttention(8, 2, kdim=6, vdim=4, batch_first=True)


MODELS = [
    pytest.param(lambda: ConvNet(4, width=4), (3, 3, 28, 28), 4, id="convnet"),
    pytest.param(lambda: MLP(4, inputs=48), (3, 3, 4, 4), 4, id="mlp"),
    pytest.param(lambda: ResNet18(4), (2, 3, 64, 64), 21, id="resnet18"),
    pytest.param(Odd, (5, 3, 9), 4, id="odd"),
    pytest.param(encoder, (3, 5, 16), 8, id="transformer"),
    pytest.param(
        lambda: nn.Sequential(nn.ConvTranspose2d(2, 3, 3), nn.Conv3d(1, 2, 1)),
        None,
        2,
        id="transposed",
    ),
]
RUNNABLE = [case for case in MODELS if case.values[1] is not None]
SMALL = [case for case in RUNNABLE if case.id != "resnet18"]


def batch(shape):
    return torch.randn(shape, generator=seeded(3))


@pytest.mark.parametrize(("build", "shape", "count"), MODELS)
def test_attach_names_and_keeps_the_weights(build, shape, count):
    model = build()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    names = masks.attach(model)
    assert len(names) == len(set(names)) == count
    assert set(masks.logits(model)) == set(names) <= set(before)
    for name, logits in masks.logits(model).items():
        assert before[name].ndim > 1
        assert logits.shape == before[name].shape
        assert (logits == 1.5).all()
        path, _, parameter = name.rpartition(".")
        owner = model.get_submodule(path)
        assert torch.equal(owner.parametrizations[parameter].original, before[name])


@pytest.mark.parametrize(("build", "shape", "count"), RUNNABLE)
def test_gradients_reach_every_logit(build, shape, count):
    model = build()
    masks.attach(model)
    model(batch(shape)).square().sum().backward()
    for name, logits in masks.logits(model).items():
        share = float((logits.grad != 0).double().mean())
        # A dead ReLU may block a few gradients; an unused mask would block all.
        assert share > 0.3, name


@pytest.mark.parametrize(("build", "shape", "count"), SMALL)
def test_train_forward_is_a_function_of_the_step(build, shape, count):
    model = build()
    masks.attach(model, init=0.0)
    step = torch.tensor(3)
    masks.follow(model, step)
    x = batch(shape)
    first = model(x)
    assert torch.equal(model(x), first)
    step += 1
    assert not torch.allclose(model(x), first)


@pytest.mark.parametrize(("build", "shape", "count"), RUNNABLE)
@torch.no_grad()
def test_round_trip(build, shape, count):
    """attach, harden, bake: the plain model again, with the pruned weights exactly zero."""
    model, x = build().eval(), batch(shape)
    plain_state = {name: value.clone() for name, value in model.state_dict().items()}
    classes = [type(m) for m in model.modules()]
    names = masks.attach(model)
    random_logits(model)
    learned_output = model(x)
    keep = masks.harden(model)
    assert list(keep) == names
    assert masks.logits(model) == {}
    assert torch.equal(model(x), learned_output)
    hardened = copy.deepcopy(model.state_dict())
    assert torch.equal(model.train()(x), model(x))  # nothing is sampled after baking
    model.load_state_dict(hardened)  # train mode changed the batch-norm statistics
    masks.bake(model.eval())
    torch.testing.assert_close(model(x), learned_output, rtol=1e-5, atol=1e-5)
    state = model.state_dict()
    assert sorted(state) == sorted(plain_state)
    assert [type(m) for m in model.modules()] == classes
    for name, value in plain_state.items():
        expected = value * keep[name] if name in keep else value
        assert torch.equal(state[name], expected), name
    assert all((state[name][~keep[name]] == 0).all() for name in names)
    assert 0.4 < masks.density(keep) < 0.6


@pytest.mark.parametrize(("build", "shape", "count"), RUNNABLE)
@torch.no_grad()
def test_apply_equals_bake(build, shape, count):
    model, x = build().eval(), batch(shape)
    twin = copy.deepcopy(model)
    masks.attach(model)
    random_logits(model)
    keep = masks.harden(model)
    masks.bake(model)
    masks.apply(twin, keep)
    torch.testing.assert_close(twin(x), model(x), rtol=1e-5, atol=1e-5)
    assert {name: k.sum() for name, k in masks.harden(twin).items()} == {
        name: k.sum() for name, k in keep.items()
    }


def test_attention_is_masked_in_training_and_in_evaluation():
    model, x = encoder(), batch((3, 5, 16))
    names = masks.attach(model)
    assert "layers.0.self_attn.in_proj_weight" in names
    assert "layers.1.self_attn.out_proj.weight" in names
    projection = masks.logits(model)["layers.0.self_attn.in_proj_weight"]
    attention = model.layers[0].self_attn
    assert projection.shape == (48, 16)
    assert (attention.in_proj_weight == 0).any()
    for mode in (True, False):
        projection.data.fill_(1.5)
        with torch.no_grad():
            whole = model.train(mode)(x)
            projection.data[
                32:
            ] = -50.0  # prunes the values, so that the attention only returns its bias
            cut = model(x)
        assert not torch.allclose(whole, cut)
        assert (attention.in_proj_weight[32:] == 0).all()


def test_attention_with_separate_projections():
    model = cross_attention()
    names = masks.attach(model)
    assert names == ["q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"]
    q, k, v = batch((2, 3, 8)), batch((2, 5, 6)), batch((2, 5, 4))
    model(q, k, v)[0].square().sum().backward()
    assert all((t.grad != 0).double().mean() > 0.9 for t in masks.logits(model).values())


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda: ConvNet(10), 660_992),
        (lambda: ResNet18(10), 11_172_032),
        (lambda: ResNet18(2), 11_167_936),
    ],
    ids=["convnet", "resnet18-10", "resnet18-2"],
)
def test_the_number_of_maskable_weights_equals_the_reference(build, expected):
    model = build()
    masks.attach(model)
    assert sum(t.numel() for t in masks.logits(model).values()) == expected


def test_select_chooses_the_weights():
    model = Odd()
    names = masks.attach(model, select=lambda module, name, tensor: name == "gain", init=0.25)
    assert names == ["gain"]
    assert (masks.logits(model)["gain"] == 0.25).all()
    model(batch((5, 3, 9))).sum().backward()
    assert (masks.logits(model)["gain"].grad != 0).any()
    keep = masks.harden(model)
    masks.bake(model)
    assert isinstance(model.gain, nn.Parameter)
    assert keep["gain"].all()


def test_masks_follow_the_mode_of_the_model():
    model = ConvNet(4, width=4).eval()
    masks.attach(model)
    found = [m for m in model.modules() if isinstance(m, LearnedMask)]
    assert [m.training for m in found] == [False] * 4
    model.train()
    assert [m.training for m in found] == [True] * 4


@pytest.mark.parametrize("training", [True, False])
def test_baking_without_hardening_writes_the_threshold_not_a_sample(training):
    model = nn.Linear(30, 30).train(training)
    weight = model.weight.detach().clone()
    masks.attach(model)
    random_logits(model)
    keep = masks.logits(model)["weight"] > 0
    masks.bake(model)
    assert torch.equal(model.weight, weight * keep)
    assert model.training is training


def test_baking_keeps_the_parameters_that_an_optimiser_holds():
    model = nn.Linear(4, 4)
    weight = model.weight
    masks.attach(model)
    masks.bake(model)
    assert model.weight is weight
    assert weight.requires_grad


def test_hardening_twice_gives_the_same_masks():
    model = ConvNet(4, width=4)
    masks.attach(model)
    random_logits(model)
    first, second = masks.harden(model), masks.harden(model)
    assert all(torch.equal(first[name], second[name]) for name in first)
    first["head.weight"].fill_(False)
    assert torch.equal(masks.harden(model)["head.weight"], second["head.weight"])


def test_keep_zero_decides_logits_at_zero():
    for keep_zero in (True, False):
        model = nn.Linear(3, 3)
        masks.attach(model, init=0.0, keep_zero=keep_zero)
        assert masks.density(masks.harden(model)) == float(keep_zero)


# What cannot be masked


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 3)
        self.body = nn.Linear(3, 3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight


def test_tied_weights_are_refused():
    model = Tied()
    with pytest.raises(MaskError, match=r"head\.weight.*tied.*embed\.weight.*select="):
        masks.attach(model)
    assert masks.logits(model) == {}
    untied = masks.attach(model, select=lambda m, n, t: m is model.body and n == "weight")
    assert untied == ["body.weight"]


def test_applying_a_mask_to_a_tied_weight_is_refused():
    with pytest.raises(MaskError, match=r"head\.weight is tied to embed\.weight"):
        masks.apply(Tied(), {"head.weight": torch.ones(5, 3, dtype=torch.bool)})


def test_tied_weights_elsewhere_do_not_prevent_applying():
    model = Tied()
    masks.apply(model, {"body.weight": torch.eye(3, dtype=torch.bool)})
    assert (model.body.weight != 0).sum() == 3


def test_a_module_used_twice_is_masked_once():
    layer = nn.Linear(6, 6)
    model, x = nn.Sequential(layer, nn.Tanh(), layer), torch.ones(2, 6)
    assert masks.attach(model) == ["0.weight"]
    random_logits(model)
    model(x).sum().backward()
    assert (masks.logits(model)["0.weight"].grad != 0).all()
    hard = model.eval()(x)
    masks.harden(model)
    masks.bake(model)
    torch.testing.assert_close(model(x), hard)
    assert model[0] is model[2]


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_lazy_layers_need_a_batch_first():
    model = nn.Sequential(nn.Flatten(), nn.LazyLinear(4))
    with pytest.raises(MaskError, match=r"1\.weight.*shape.*batch"):
        masks.attach(model)
    model(torch.ones(2, 3, 3))
    assert masks.attach(model) == ["1.weight"]


def test_a_second_attach_is_refused():
    model = MLP(3, inputs=12, hidden=(4,))
    masks.attach(model)
    with pytest.raises(MaskError, match=r"body\.1\.0.*parametrized.*bake\(model\)"):
        masks.attach(model)
    keep = masks.harden(model)
    with pytest.raises(MaskError, match="parametrized"):
        masks.apply(model, keep)
    masks.bake(model)
    assert masks.attach(model) == list(keep)


@pytest.mark.parametrize(
    "normalise",
    [parametrizations.weight_norm, parametrizations.spectral_norm, parametrizations.orthogonal],
)
def test_a_normalised_weight_is_refused(normalise):
    model = nn.Sequential(nn.Linear(4, 4), normalise(nn.Linear(4, 4)))
    with pytest.raises(MaskError, match=r"1 .*parametrized"):
        masks.attach(model)


def test_a_normalised_weight_elsewhere_does_not_prevent_applying():
    model = nn.Sequential(nn.Linear(4, 4), parametrizations.spectral_norm(nn.Linear(4, 4)))
    names = masks.attach(model, select=lambda m, n, t: m is model[0] and n == "weight")
    keep = masks.harden(model)
    masks.bake(model)
    masks.apply(model, {names[0]: keep[names[0]] & False})
    assert (model[0].weight == 0).all()


def test_the_plain_state_keeps_other_parametrizations():
    """They are part of the network, so its weights must load into a new one."""

    def build():
        normalised = parametrizations.weight_norm(nn.Linear(4, 4))
        return nn.Sequential(
            nn.Linear(4, 4), normalised, parametrizations.spectral_norm(nn.Linear(4, 4))
        )

    model = build()
    masks.apply(model, {"0.weight": torch.rand(4, 4) > 0.5})
    fresh = build()
    fresh.load_state_dict(masks.plain_state(model))
    x = torch.randn(3, 4)
    assert torch.equal(fresh.eval()(x), model.eval()(x))


def test_nothing_selected_is_refused():
    with pytest.raises(MaskError, match="nothing to mask"):
        masks.attach(nn.Sequential(nn.BatchNorm2d(3), nn.ReLU()))
    with pytest.raises(MaskError, match="nothing to mask"):
        masks.attach(nn.Linear(3, 3), select=lambda module, name, tensor: False)


def test_hardening_a_plain_model_is_refused():
    with pytest.raises(MaskError, match=r"no masks.*attach\(model\)"):
        masks.harden(nn.Linear(3, 3))


def test_apply_refuses_masks_of_another_model():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    right = torch.ones(4, 3, dtype=torch.bool)
    for given in ({"0.weight": right, "2.weight": right}, {"2.weight": right}):
        with pytest.raises(MaskError, match=r"'2\.weight'"):
            masks.apply(model, given)
    with pytest.raises(MaskError, match=r"1\.weight.*\(4, 3\).*\(2, 4\)"):
        masks.apply(model, {"0.weight": right, "1.weight": right})
    # A failed call changes nothing, not even the weights whose masks fit.
    masks.apply(model, {"0.weight": right})


# FixedMask with drop


def test_drop_leaves_out_a_share_of_the_kept_weights_in_training():
    keep = torch.rand(MANY, generator=seeded()) < 0.6
    weight = torch.randn(MANY, generator=seeded(1)) + 5.0
    mask = FixedMask(keep, drop=0.2, seed=3, stream=4)
    sample = mask(weight)
    assert (sample[~keep] == 0).all()
    kept = int(keep.sum())
    close_share((sample[keep] != 0).double().mean(), 0.8, kept)
    torch.testing.assert_close(sample[sample != 0], (weight / 0.8)[sample != 0])
    # The mean is preserved: the standard deviation of a dropped weight is w sqrt(drop / (1 - drop)).
    spread = float((weight[keep] ** 2).mean().sqrt()) * math.sqrt(0.2 / 0.8 / kept)
    assert abs(float(sample[keep].mean() - weight[keep].mean())) < 4 * spread


def test_drop_is_off_in_evaluation_and_by_default():
    keep, weight = torch.tensor([True, False, True]), torch.tensor([1.0, 2.0, 3.0])
    expected = [1.0, 0.0, 3.0]
    assert FixedMask(keep, drop=0.5).eval()(weight).tolist() == expected
    assert FixedMask(keep)(weight).tolist() == expected


def test_drop_changes_at_every_step():
    model = nn.Linear(40, 40)
    masks.apply(model, {"weight": torch.ones(40, 40, dtype=torch.bool)}, drop=0.2, seed=1)
    step = torch.tensor(7)
    masks.follow(model, step)
    first = model.weight != 0
    assert torch.equal(model.weight != 0, first)
    step += 1
    assert not torch.equal(model.weight != 0, first)
    assert (model.eval().weight != 0).all()


def test_dropped_weights_get_no_gradient():
    keep = torch.rand(500, generator=seeded()) < 0.5
    weight = torch.ones(500, requires_grad=True)
    FixedMask(keep, drop=0.3)(weight).sum().backward()
    assert (weight.grad[~keep] == 0).all()
    assert {round(g, 5) for g in weight.grad[keep].tolist()} == {0.0, round(1 / 0.7, 5)}


def test_baking_a_model_with_drop_writes_all_kept_weights():
    model = nn.Linear(10, 10).train()
    weight = model.weight.detach().clone()
    keep = torch.eye(10, dtype=torch.bool)
    masks.apply(model, {"weight": keep}, drop=0.5)
    masks.bake(model)
    assert torch.equal(model.weight, weight * keep)


def test_the_fixed_mask_is_saved_and_the_stored_weights_are_unmasked():
    model = nn.Linear(2, 2)
    masks.apply(model, {"weight": torch.eye(2, dtype=torch.bool)})
    assert set(model.state_dict()) == {
        "bias",
        "parametrizations.weight.original",
        "parametrizations.weight.0.keep",
    }


# Reachable weights and density


def unreached(model, size):
    names = [name for name, p in model.named_parameters() if p.ndim > 1]
    reach = reachable(model, torch.zeros(1, 3, size, size), names)
    total = sum(r.numel() for r in reach.values())
    return sum(int((~r).sum()) for r in reach.values()) / total


@pytest.mark.parametrize(
    ("size", "low", "high"), [(32, 0.6215, 0.6225), (64, 0.0, 0.0005), (128, 0.0, 0.0)]
)
def test_the_unreachable_share_of_resnet18_equals_the_reference(size, low, high):
    assert low <= unreached(ResNet18(10), size) <= high


class Padding(nn.Conv2d):
    """A convolution with its own padding, as in EfficientNet."""

    def forward(self, x):
        return super().forward(nn.functional.pad(x, (1, 1, 1, 1)))


def test_all_weights_of_a_convolution_with_its_own_forward_are_reachable():
    model = nn.Sequential(Padding(3, 4, 3), nn.Flatten(), nn.Linear(4, 2))
    assert unreached(model, 1) == 0


def conv(*args, **kwargs):
    return nn.Conv2d(*args, bias=False, **kwargs)


NETS = {
    "maps of one pixel": lambda: [
        conv(3, 4, 3, stride=2, padding=1),
        conv(4, 4, 3, stride=2, padding=1),
        conv(4, 5, 3, stride=2, padding=1),
        conv(5, 5, 3, padding=1),
    ],
    "dilated": lambda: [
        conv(3, 4, 3, padding=4, dilation=4),
        conv(4, 4, 5, padding=6, dilation=3),
    ],
    "oblong": lambda: [
        conv(3, 4, (1, 5), stride=(3, 1), padding=(0, 4)),
        conv(4, 4, 3, padding=1),
    ],
    "strides that skip": lambda: [
        conv(3, 4, 2, stride=5, padding=1),
        conv(4, 4, 7, stride=3, padding=3),
    ],
    "grouped": lambda: [
        conv(3, 6, 5, stride=4, padding=2, groups=3),
        conv(6, 6, 5, padding=2, groups=2),
    ],
    "same": lambda: [conv(3, 4, 3, stride=5, padding=1), conv(4, 4, 5, padding="same")],
    "valid": lambda: [conv(3, 4, 5, padding="valid"), conv(4, 4, 2)],
    "circular": lambda: [
        conv(3, 4, 3, stride=5, padding=1),
        conv(4, 4, 3, padding=1, padding_mode="circular"),
    ],
}


class Smooth(nn.Module):
    """Convolutions with an activation whose gradient is never zero, and a linear head."""

    def __init__(self, convs):
        super().__init__()
        self.convs = nn.ModuleList(convs)
        self.head = nn.Linear(convs[-1].out_channels, 3)

    def forward(self, x):
        for layer in self.convs:
            x = torch.tanh(0.5 * layer(x))
        return self.head(x.mean((2, 3)))


@pytest.mark.parametrize("name", NETS)
def test_reachable_weights_are_those_with_a_gradient(name):
    model = Smooth(NETS[name]()).double()
    x = torch.randn(16, 3, 7, 7, generator=seeded(), dtype=torch.float64)
    names = [n for n, p in model.named_parameters() if p.ndim > 1]
    reach = reachable(model, x, names)
    model(x).square().sum().backward()
    for weight in names:
        gradient = model.get_parameter(weight).grad
        assert torch.equal(reach[weight], gradient != 0), weight


def test_reachable_weights_of_two_input_sizes_are_combined():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 3, 3, padding=1)

        def forward(self, x):
            return self.conv(F.adaptive_avg_pool2d(self.conv(x), 1))

    reach = reachable(Twice(), torch.zeros(1, 3, 6, 6), ["conv.weight"])
    assert reach["conv.weight"].all()


def test_reachable_does_not_change_the_model():
    model = ConvNet(4, width=4).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    names = masks.attach(model)
    reach = reachable(model, torch.rand(2, 3, 28, 28), names)
    assert list(reach) == names
    assert model.training
    assert not any(m._forward_pre_hooks for m in model.modules())
    assert torch.equal(model.body[0][1].running_mean, before["body.0.1.running_mean"])


def test_a_convolution_that_is_never_called_has_no_reachable_weight():
    class Unused(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Conv2d(3, 2, 1), nn.Conv2d(3, 2, 1)

        def forward(self, x):
            return self.used(x)

    names = ["used.weight", "unused.weight"]
    reach = reachable(Unused(), torch.zeros(1, 3, 4, 4), names)
    assert reach["used.weight"].all()
    assert not reach["unused.weight"].any()


def test_density_counts_weights():
    keep = {"a": torch.tensor([True, False, False]), "b": torch.tensor([[True, True]])}
    assert masks.density(keep) == pytest.approx(3 / 5)
    reach = {"a": torch.tensor([True, True, False]), "b": torch.tensor([[False, False]])}
    assert masks.density(keep, reach) == pytest.approx(1 / 2)
    nowhere = {name: torch.zeros_like(k) for name, k in keep.items()}
    assert masks.density(keep, nowhere) == 1.0


def test_density_over_reachable_weights_of_resnet18():
    """Removing only unreachable weights does not lower the density of reachable weights."""
    model = ResNet18(10)
    names = masks.attach(model)
    reach = reachable(model, torch.zeros(1, 3, 32, 32), names)
    assert masks.density(reach, reach) == 1.0
    assert masks.density(reach) == pytest.approx(1 - 0.6218, abs=1e-3)
