"""Compare every fast path with the plain eager step: parallel, captured, compiled, masks in one kernel."""

import os
import subprocess
import sys
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from toys import MemoryCheckpointer, TinyNet, resident, same, shapes_set
from unspur import masks
from unspur.errors import Interrupted, TrainingError
from unspur.masks import layers
from unspur.methods import ERM, Amplified, Debiased, MaskSearch
from unspur.training import sampling
from unspur.training.fit_options import FitOptions, Optimiser
from unspur.training.inputs import Training
from unspur.training.loop import fit, fit_together

CUDA = pytest.param(
    "cuda",
    marks=[
        pytest.mark.cuda,
        pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU"),
    ],
)
each_device = pytest.mark.parametrize("device", ["cpu", CUDA])
on_a_gpu = pytest.mark.parametrize("device", [CUDA])
PLAN = FitOptions(steps=25, optimiser=Optimiser(rate=1e-2, schedule="cosine"), log_every=10)


class Dropping(TinyNet):
    """A network with dropout, which draws from torch's random stream."""

    def forward(self, x):
        return nn.functional.dropout(super().forward(x), 0.5, self.training)


class Looking(TinyNet):
    """A network whose step waits for the device, so that it cannot be captured."""

    def forward(self, x):
        return super().forward(x) * (1.0 if float(x.detach().sum()) > -1 else 0.0)


def searching():
    model = TinyNet()
    masks.attach(model, seed=3)
    return MaskSearch(model, head="head", sparsity=1e-6)


def tuned():
    model = TinyNet()
    masks.apply(model, {"conv.weight": torch.rand_like(model.conv.weight) > 0.3}, drop=0.2)
    return Debiased(model, head="head", align=0.5)


METHODS = {
    "erm": lambda: ERM(TinyNet()),
    "amplified": lambda: Amplified(TinyNet()),
    "dropping": lambda: ERM(Dropping()),
    "looking": lambda: ERM(Looking()),
    "search": searching,
    "tuned": tuned,
}


def training(name, device, seed, plan=PLAN, checkpointer=None):
    """Return a small training on augmented, oversampled batches; everything depends on the seed."""
    torch.manual_seed(seed)
    method = METHODS[name]().to(device)
    source = resident(shapes_set(seed=seed), device, augment="crop-flip", seed=seed)
    order = sampling.Weighted(torch.ones(240, device=device), batch=32, seed=seed)
    return Training(method, source, order, replace(plan, seed=seed), checkpointer=checkpointer)


def alone(name, device, seed, plan=PLAN):
    one = training(name, device, seed, plan)
    fit(one.method, one.source, one.order, one.options)
    return one.method.state_dict()


# Side by side


@each_device
@pytest.mark.parametrize(
    "names",
    [("erm",) * 3, ("erm", "search", "tuned"), ("erm", "dropping", "dropping")],
    ids="-".join,
)
def test_training_side_by_side_gives_the_same_bits_as_alone(device, names):
    trainings = [training(name, device, seed) for seed, name in enumerate(names)]
    fit_together(trainings)
    for seed, (name, one) in enumerate(zip(names, trainings, strict=True)):
        assert same(one.method.state_dict(), alone(name, device, seed))


@each_device
def test_trainings_of_different_length_all_finish(device):
    plans = [PLAN, replace(PLAN, steps=9), replace(PLAN, precision="bf16")]
    trainings = [training("erm", device, 1, plan) for plan in plans]
    fit_together(trainings)
    for one, plan in zip(trainings, plans, strict=True):
        assert same(one.method.state_dict(), alone("erm", device, 1, plan))


@each_device
def test_learning_rates_may_differ_side_by_side(device):
    plans = [replace(PLAN, optimiser=Optimiser(rate=rate)) for rate in (1e-2, 1e-3)]
    trainings = [training("erm", device, 1, plan) for plan in plans]
    fit_together(trainings)
    for one, plan in zip(trainings, plans, strict=True):
        assert same(one.method.state_dict(), alone("erm", device, 1, plan))


class Stopping(MemoryCheckpointer):
    """A checkpointer that raises an error at its first checkpoint."""

    def checkpoint(self, tensors, facts):
        super().checkpoint(tensors, facts)
        raise InterruptedError


@each_device
def test_trainings_resume_from_different_steps_after_a_kill(device):
    """Only one of two trainings was checkpointed when the process died; the results do not change."""
    checkpointers = [Stopping(), MemoryCheckpointer()]
    plan = replace(PLAN, checkpoint_every=10)
    with pytest.raises(InterruptedError):
        fit_together([training("search", device, n, plan, checkpointers[n]) for n in (0, 1)])
    assert checkpointers[0].saved
    assert not checkpointers[1].saved
    again = [training("search", device, n, PLAN, checkpointers[n]) for n in (0, 1)]
    fit_together(again)
    for seed, one in enumerate(again):
        assert same(one.method.state_dict(), alone("search", device, seed))


@each_device
def test_ctrl_c_checkpoints_all_trainings(device, monkeypatch):
    class Pressing(MemoryCheckpointer):
        def log(self, row):
            super().log(row)
            if row["step"] == 10:
                os.kill(os.getpid(), 2)

    checkpointers = [Pressing(), MemoryCheckpointer()]
    trainings = [training("erm", device, n, PLAN, checkpointers[n]) for n in (0, 1)]
    with pytest.raises(Interrupted, match="step 10 of 25"):
        fit_together(trainings)
    kept = checkpointers if device == "cuda" else checkpointers[:1]
    assert [checkpointer.saved[1]["step"] for checkpointer in kept] == [10] * len(kept)


def test_a_loss_that_is_not_finite_is_reported():
    plan = replace(PLAN, optimiser=Optimiser(name="sgd", rate=1e30))
    with pytest.raises(TrainingError, match="since step"):
        fit_together([training("erm", "cpu", 0), training("erm", "cpu", 1, plan)])


# Captured


@on_a_gpu
@pytest.mark.parametrize("name", ["erm", "amplified", "search", "tuned"])
def test_captured_equals_eager(device, name):
    eager = alone(name, device, 1, replace(PLAN, capture=False))
    for key, value in alone(name, device, 1).items():
        torch.testing.assert_close(value, eager[key], rtol=1e-5, atol=1e-6)


@on_a_gpu
def test_a_step_that_cannot_be_recorded_runs_eagerly_and_says_so(device):
    with pytest.warns(UserWarning, match="cannot be captured"):
        found = alone("looking", device, 1)
    assert same(found, alone("looking", device, 1, replace(PLAN, capture=False)))


# Compiled


@pytest.fixture
def quick_compile(monkeypatch, device):
    """Let torch.compile only trace on a CPU, where generating code is slow."""
    if device == "cpu":
        monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    torch._dynamo.reset()


@each_device
@pytest.mark.parametrize("name", ["erm", "search", "tuned"])
@pytest.mark.usefixtures("quick_compile")
def test_compiled_equals_eager(device, name):
    plan = replace(PLAN, steps=8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about its compiler
        compiled = alone(name, device, 1, replace(plan, compile=True))
    for key, value in alone(name, device, 1, plan).items():
        torch.testing.assert_close(compiled[key], value, rtol=1e-3, atol=2e-5)


# Masks in one kernel


def check_kernels(device):
    """Compare the kernels with the plain masks, for every layout and both kinds of noise."""
    from unspur import noise
    from unspur.masks import kernels

    torch.manual_seed(0)
    cases = [((5, 7), False), ((8, 3, 4, 4), True), ((8, 3, 4, 4), False), ((8, 1, 3, 3), True)]
    for shape, channels_last in [*cases, ((70, 50), False)]:
        weight, grad = torch.randn(2, *shape, device=device)
        if channels_last:
            weight = weight.to(memory_format=torch.channels_last)
        for on in ("logit", "probability"):
            mask = masks.LearnedMask(
                weight, init=0.3, on=on, keep_zero=False, seed=2**40 + 5, stream=1003
            )
            mask.logits.data.add_(torch.randn(shape, device=device))
            mask.step = torch.tensor(70_000, device=device)
            plain = mask(
                weight.clone().requires_grad_()
            )  # the kernel does not support trainable weights
            (expected,) = torch.autograd.grad(plain, mask.logits, grad)
            keys = noise.stream_keys(mask.seed, mask.stream)
            fused, sums = kernels.sample(weight, mask.logits, mask.step, *keys, on == "logit")
            assert torch.equal(fused, plain)
            torch.testing.assert_close(sums.sum(), mask.logits.sum())
            both = torch.autograd.grad([fused, 0.3 * sums.sum()], mask.logits, [grad, None], True)
            torch.testing.assert_close(both[0], expected + 0.3, rtol=1e-4, atol=1e-6)
            each = torch.rand_like(sums)
            (of_sums,) = torch.autograd.grad(sums, mask.logits, each, True)
            in_blocks = of_sums.permute(0, 2, 3, 1) if channels_last else of_sums
            blocks = in_blocks.reshape(-1).split(1024)
            assert [set(block.tolist()) for block in blocks] == [{x} for x in each.tolist()]
            (found,) = torch.autograd.grad(fused, mask.logits, grad)
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
            assert found.stride() == weight.stride()
        thinned = masks.FixedMask(torch.rand_like(weight) > 0.4, drop=0.2, seed=7, stream=1001)
        u = noise.uniform(7, torch.tensor(9, device=device), 1001, shape, device)
        expected = weight * ((u >= 0.2) & thinned.keep) / 0.8
        leaf = weight.clone().requires_grad_()
        step = torch.tensor(9, device=device)
        found = kernels.thin(leaf, thinned.keep, step, *noise.stream_keys(7, 1001), 0.2)
        assert torch.equal(found, expected)
        (back,) = torch.autograd.grad(found, leaf, grad)
        assert torch.equal(back, grad * ((u >= 0.2) & thinned.keep) / 0.8)
        assert kernels.fits(weight, thinned.keep)
        assert not kernels.fits(weight.double(), thinned.keep)
        assert not kernels.fits(weight.T if weight.dim() == 2 else weight.transpose(2, 3), weight)


@on_a_gpu
def test_masks_in_one_kernel_equal_the_plain_ones(device):
    check_kernels(device)


def test_masks_in_one_kernel_interpreted():
    """Run the same kernels on a CPU with Triton's interpreter, in a separate process."""
    pytest.importorskip("triton", reason="Triton is not installed")
    code = "import test_kernels; test_kernels.check_kernels('cpu')"
    folders = os.pathsep.join(
        [str(Path(__file__).parent), str(Path(__file__).parents[1]), *sys.path]
    )
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": folders}
    subprocess.run([sys.executable, "-c", code], env=env, check=True)


@on_a_gpu
def test_masks_use_the_kernel_if_it_supports_the_weight(device, monkeypatch):
    calls = []
    real = layers.kernels.sample
    monkeypatch.setattr(layers.kernels, "sample", lambda *a: calls.append(1) or real(*a))
    model = searching().to(device).model
    masks.follow(model, torch.tensor(3, device=device))
    model.train()(torch.rand(4, 3, 8, 8, device=device))
    assert len(calls) == 2


@on_a_gpu
def test_the_kernels_of_a_plain_step_do_not_import_the_compiler(device):
    code = (
        "import sys, torch\n"
        "from unspur.masks import kernels\n"
        "weight, logits = (torch.ones(3, 4, device='cuda', requires_grad=b) for b in (False, True))\n"
        "step = torch.tensor(1, device='cuda')\n"
        "kernels.sample(weight, logits, step, 1, 2, True)[0].sum().backward()\n"
        "kernels.thin(logits, weight > 0, step, 1, 2, 0.5).sum().backward()\n"
        "torch.cuda.synchronize()\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
