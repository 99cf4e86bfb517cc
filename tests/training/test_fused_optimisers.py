"""Our fused optimisers give the bits of torch's, and do not import its compiler."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from toys import same
from unspur.training.fit_options import Optimiser

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.cuda,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU"),
        ],
    ),
]
CASES = {
    "adam": Optimiser(rate=1e-2, betas=(0.9, 0.999)),
    "adam with decay": Optimiser(rate=1e-2, weight_decay=0.1),
    "sgd": Optimiser("sgd", rate=0.1),
    "sgd with decay": Optimiser("sgd", rate=0.1, weight_decay=0.1, momentum=0.5),
    "sgd without momentum": Optimiser("sgd", rate=0.1, momentum=0.0),
}


def parameters(device):
    """Return parameters of several shapes, types and memory layouts; the last one gets no gradient."""
    torch.manual_seed(0)
    made = [torch.randn(5, 3, 4, 4), torch.randn(7), torch.randn(()), torch.randn(2, 3).double()]
    made[0] = made[0].to(memory_format=torch.channels_last)
    return [nn.Parameter(t.to(device)) for t in [*made, torch.randn(4)]]


def set_gradients(found, step):
    for number, parameter in enumerate(found[:-1]):
        torch.manual_seed(100 * step + number)
        gradient = torch.randn(parameter.shape, dtype=parameter.dtype)
        parameter.grad = torch.empty_like(parameter.detach()).copy_(gradient)  # in the same layout


def rate_on(device, rate):
    """Return a learning rate as a captured step has it: on a GPU a float32."""
    return torch.tensor(rate, device=device) if device == "cuda" else rate


def torchs(case, found):
    rate = rate_on(found[0].device.type, case.rate)
    if case.name == "sgd":
        return torch.optim.SGD(
            found, rate, case.momentum, weight_decay=case.weight_decay, fused=True
        )
    return torch.optim.Adam(found, rate, case.betas, weight_decay=case.weight_decay, fused=True)


def by_number(found):
    return {str(number): parameter.detach() for number, parameter in enumerate(found)}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_bits_are_those_of_torch(case, device):
    ours, theirs, start = parameters(device), parameters(device), parameters(device)
    optimiser, reference = case.build(ours), torchs(case, theirs)
    for step in range(5):
        for group in optimiser.groups:
            optimiser.set_rate(group, case.rate / (1 + step))
        for group in reference.param_groups:
            group["lr"] = rate_on(device, case.rate / (1 + step))
        set_gradients(ours, step)
        set_gradients(theirs, step)
        optimiser.step()
        reference.step()
    assert same(by_number(ours), by_number(theirs))
    assert torch.equal(ours[-1], start[-1])
    assert not any(torch.equal(a, b) for a, b in zip(ours[:-1], start[:-1], strict=True))
    optimiser.clear_gradients()
    assert all(parameter.grad is None for parameter in ours)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_state_has_the_names_of_torchs_and_can_be_loaded(case, device):
    ours, theirs = parameters(device), parameters(device)
    optimiser, reference = case.build(ours), torchs(case, theirs)
    for step in range(3):
        set_gradients(ours, step)
        set_gradients(theirs, step)
        optimiser.step()
        reference.step()
    expected = reference.state_dict()["state"]
    for number, state in enumerate(optimiser.states):
        known = {k: t for k, t in expected.get(number, {}).items() if t is not None}
        assert state.keys() == known.keys()
        assert same(state, known)
    copies = [nn.Parameter(parameter.detach().clone()) for parameter in ours]
    again = case.build(copies)
    again.load({n: {k: t.cpu() for k, t in s.items()} for n, s in enumerate(optimiser.states)})
    for each in (ours, copies):
        set_gradients(each, 3)
    optimiser.step()
    again.step()
    assert same(by_number(ours), by_number(copies))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_the_usual_type_may_be_float64(name, device):
    weight = nn.Parameter(torch.ones(3, dtype=torch.float64, device=device))
    torch.set_default_dtype(torch.float64)
    try:
        optimiser = Optimiser(name, rate=0.5).build([weight])
        weight.sum().backward()
        optimiser.step()
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.allclose(weight.detach().cpu(), torch.full((3,), 0.5).double(), atol=1e-6)
    # The kernel of Adam for GPUs reads steps as float32.
    assert all(s["step"].dtype == torch.float32 for s in optimiser.states if "step" in s)


@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_a_step_does_not_import_the_compiler(name):
    code = (
        "import sys, torch\n"
        "from unspur.training.fit_options import Optimiser\n"
        "weight = torch.nn.Parameter(torch.ones(3))\n"
        f"optimiser = Optimiser({name!r}).build([weight])\n"
        "weight.sum().backward()\n"
        "optimiser.step()\n"
        "assert float(weight.detach().max()) < 1\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
