"""The same promises on a GPU: captured equals eager, resumed equals undisturbed, bits equal the CPU's."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from subjects import SUBJECTS
from toys import MemoryCheckpointer, TinyNet, resident, shapes_set
from unspur import masks, noise
from unspur.methods import ERM, Debiased, MaskSearch
from unspur.training import sampling
from unspur.training.fit_options import FitOptions, Optimiser
from unspur.training.loop import fit

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU"),
]
PLAN = FitOptions(steps=30, optimiser=Optimiser(rate=1e-2, schedule="cosine"), log_every=10)


class Dropping(TinyNet):
    """A network that itself draws random numbers."""

    def forward(self, x):
        return nn.functional.dropout(super().forward(x), 0.5, self.training)


def methods():
    torch.manual_seed(0)
    erm = ERM(TinyNet())
    searched = TinyNet()
    masks.attach(searched)
    tuned = TinyNet()
    keep = {"conv.weight": torch.rand_like(tuned.conv.weight) > 0.3}
    masks.apply(tuned, keep, drop=0.2)
    return {
        "erm": erm,
        "headed": ERM(TinyNet(), head="head"),
        "dropping": ERM(Dropping()),
        "search": MaskSearch(searched, head="head", sparsity=1e-6),
        "tuned": Debiased(tuned, head="head", align=0.5),
    }


def trained(name, plan, checkpointer=None):
    method = methods()[name].cuda()
    source = resident(shapes_set(), "cuda", augment="crop-flip", seed=3)
    order = sampling.Weighted(torch.ones(240, device="cuda"), batch=32, seed=5)
    fit(method, source, order, plan, checkpointer=checkpointer)
    return {k: v.cpu() for k, v in method.state_dict().items()}


def same(a, b):
    return all(torch.equal(a[k], b[k]) for k in a)


def test_a_captured_step_trains_the_head_first():
    plan = replace(PLAN, optimiser=Optimiser(rate=1e-2, warmup=3, head_first=10))
    before = methods()["headed"].state_dict()["model.conv.weight"]
    assert same(trained("headed", plan), trained("headed", replace(plan, capture=False)))
    assert torch.equal(trained("headed", replace(plan, steps=10))["model.conv.weight"], before)
    assert not torch.equal(trained("headed", replace(plan, steps=11))["model.conv.weight"], before)


def test_noise_bits_equal_those_of_the_cpu():
    step = torch.tensor(7)
    for stream in (noise.SAMPLE, noise.FIRST_WEIGHT + 3):
        a = noise.bits(3, step, stream, (1000,))
        assert torch.equal(a, noise.bits(3, step.cuda(), stream, (1000,)).cpu())


@pytest.mark.parametrize("name", ["erm", "search", "tuned"])
def test_captured_equals_eager(name):
    eager = trained(name, replace(PLAN, capture=False))
    captured = trained(name, PLAN)
    for key, value in eager.items():
        torch.testing.assert_close(captured[key], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["erm", "dropping", "search", "tuned"])
@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_resumed_equals_undisturbed(name, optimiser):
    plan = replace(PLAN, optimiser=replace(PLAN.optimiser, name=optimiser))
    whole = trained(name, plan)

    class Stops(MemoryCheckpointer):
        def checkpoint(self, tensors, facts):
            super().checkpoint(tensors, facts)
            raise InterruptedError

    checkpointer = Stops()
    with pytest.raises(InterruptedError):
        trained(name, replace(plan, checkpoint_every=13), checkpointer)
    resumed = trained(name, plan, checkpointer)
    assert same(whole, resumed)


def test_twice_is_the_same_run():
    assert same(trained("tuned", PLAN), trained("tuned", PLAN))


def test_bf16_trains():
    state = trained("erm", replace(PLAN, precision="bf16"))
    assert all(torch.isfinite(v.float()).all() for v in state.values())
    assert not same(state, trained("erm", PLAN))


def trained_as_any(name, plan, checkpointer=None):
    """Train any method, as its contract makes it."""
    method = SUBJECTS[name].make().cuda()
    bias = SUBJECTS[name].labels()
    source = resident(shapes_set(), "cuda", augment="crop-flip", seed=3, bias=bias)
    order = sampling.Passes(torch.arange(240, device="cuda"), batch=32, seed=5)
    fit(method, source, order, plan, checkpointer=checkpointer)
    return {k: v.cpu() for k, v in method.state_dict().items()}


@pytest.mark.filterwarnings("error:the training step cannot be captured")
@pytest.mark.parametrize("name", SUBJECTS)
def test_every_method_can_be_captured(name):
    plan = replace(PLAN, precision="fp32")
    eager = trained_as_any(name, replace(plan, capture=False))
    captured = trained_as_any(name, plan)
    for key, value in eager.items():
        torch.testing.assert_close(captured[key], value, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", SUBJECTS)
def test_every_method_resumes(name):
    # Not cosine: its rate depends on the number of steps to come.
    plan = replace(PLAN, optimiser=Optimiser(rate=1e-2))
    whole, checkpointer = trained_as_any(name, plan), MemoryCheckpointer()
    trained_as_any(name, replace(plan, steps=14, checkpoint_every=13), checkpointer)
    assert same(whole, trained_as_any(name, plan, checkpointer))
