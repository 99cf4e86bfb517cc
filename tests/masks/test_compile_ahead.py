"""Kernels of masks are compiled in the background, once, and a training finds them."""

from types import SimpleNamespace

import pytest
import torch

from unspur import masks, noise
from unspur.masks import layers
from unspur.masks.compile_ahead import compile_ahead

GPU = torch.device("cuda")
on_a_gpu = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU"),
]


@pytest.fixture(autouse=True)
def forget():
    compile_ahead.cache_clear()
    yield
    compile_ahead.cache_clear()


def test_nothing_is_compiled_without_a_gpu_or_without_kernels(monkeypatch):
    assert masks.compile_ahead(torch.device("cpu"), "logit") is None
    monkeypatch.setattr(layers, "kernels", None)
    assert masks.compile_ahead(GPU, "logit") is None


def test_each_use_is_compiled_once_and_a_failure_is_left_to_the_training(monkeypatch):
    uses = []

    def compile_for(use):
        uses.append(use)
        raise RuntimeError("no compiler")

    monkeypatch.setattr(layers, "kernels", SimpleNamespace(compile_for=compile_for))
    monkeypatch.setattr(torch.cuda, "device", lambda device: torch.no_grad())
    threads = [masks.compile_ahead(GPU, use) for use in ("logit", "drop", "logit")]
    for thread in threads:
        thread.join()
    assert sorted(uses) == ["drop", "logit"]
    assert threads[0] is threads[2]


def compiled(kernel):
    """Return how many versions of a Triton kernel are compiled in this process."""
    return sum(len(cache[0]) for cache in kernel.device_caches.values())


@pytest.mark.parametrize("on", ["logit", "probability"])
@pytest.mark.parametrize("device", [pytest.param("cuda", marks=on_a_gpu)])
def test_a_training_finds_the_compiled_kernels(device, on):
    from unspur.masks import kernel_code as code

    kernels = layers.kernels
    for kernel in (code._sample, code._slope, code._thin):
        kernel.device_caches.clear()
    for use in (on, "drop"):
        masks.compile_ahead(torch.device("cuda"), use).join()
    weight, step = torch.randn(8, 3, 4, 4, device="cuda"), torch.tensor(3, device="cuda")
    logits = torch.randn_like(weight).requires_grad_()
    every_kind = {tuple(key >> 31 for key in noise.stream_keys(0, n)) for n in range(20)}
    assert len(every_kind) == 4  # keys of both signs
    for stream in range(20):
        keys = noise.stream_keys(0, stream)
        kernels.sample(weight, logits, step, *keys, on == "logit")[0].sum().backward()
        kernels.thin(weight, logits > 0, step, *keys, 0.3)
    assert [compiled(k) for k in (code._sample, code._slope, code._thin)] == [1, 1, 1]


@pytest.mark.parametrize("device", [pytest.param("cuda", marks=on_a_gpu)])
def test_a_graph_can_be_recorded_meanwhile(device):
    from unspur.masks import kernel_code as code

    for kernel in (code._sample, code._slope):
        kernel.device_caches.clear()
    x = torch.zeros(4, device="cuda")
    thread = masks.compile_ahead(torch.device("cuda"), "probability")
    recorded = 0
    while thread.is_alive() or not recorded:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            x += 1
        graph.replay()
        recorded += 1
    assert x.tolist() == [recorded] * 4
    assert compiled(code._sample) == 1
