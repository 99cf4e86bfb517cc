"""Mixing of style, spectrum and images of a class, compared with slow definitions."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from toys import NoSync
from unspur import noise
from unspur.data import mixing
from unspur.data.batches import Preprocess, Resident
from unspur.data.mixing import Mixing, mix_spectrum, mix_style, mix_within_class
from unspur.data.splits import Split
from unspur.data.streaming import Streaming

STEP = torch.tensor(7)


def batch(n: int = 12, classes: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(1)
    x = torch.randn(n, 3, 5, 4, generator=g)
    y = torch.randint(0, classes, (n,), generator=g)
    return x, y, torch.rand(n, generator=g) < 0.3


def slow_style(x: Tensor, probability: float, seed: int, step: int) -> Tensor:
    """Mix styles by definition, image by image and channel by channel, in double precision."""
    order, chance, amount = noise.uniform(seed, step, noise.STYLE, (3, len(x))).tolist()
    other = sorted(range(len(x)), key=lambda i: order[i])
    out = x.double().clone()
    for i in range(len(x)):
        if chance[i] >= probability:
            continue
        a, r = amount[i], other[i]
        for c in range(x.shape[1]):
            mine, theirs = x[i, c].double(), x[r, c].double()
            m, s = mine.mean(), mine.std(correction=0) + 1e-3
            m2, s2 = theirs.mean(), theirs.std(correction=0) + 1e-3
            out[i, c] = (mine - m) / s * ((1 - a) * s + a * s2) + (1 - a) * m + a * m2
    return out


def slow_mix(
    x: Tensor, y: Tensor, conflict: Tensor, probability: float, seed: int, step: int
) -> Tensor:
    """Mix by definition: the partner has the largest weight among the others of the class."""
    n = len(x)
    u = noise.uniform(seed, step, noise.MIX, (n + 2, n)).double().tolist()
    out = x.double().clone()
    for i in range(n):
        others = [j for j in range(n) if j != i and y[j] == y[i]]
        if not others or u[n][i] >= probability:
            continue
        best = max(others, key=lambda j: u[i][j] * (1 + int(conflict[j])))
        b = u[n + 1][i] / 2
        out[i] = (1 - b) * x[i].double() + b * x[best].double()
    return out


@pytest.mark.parametrize("probability", [0.4, 1.0])
def test_style_against_the_definition(probability: float) -> None:
    x, _, _ = batch()
    fast = mix_style(x, probability, seed=5, step=STEP)
    torch.testing.assert_close(fast.double(), slow_style(x, probability, 5, 7), atol=1e-5, rtol=0)


@pytest.mark.parametrize("probability", [0.4, 1.0])
def test_mixing_against_the_definition(probability: float) -> None:
    x, y, conflict = batch()
    fast = mix_within_class(x, y, conflict, probability, seed=5, step=STEP)
    expected = slow_mix(x, y, conflict, probability, 5, 7)
    torch.testing.assert_close(fast.double(), expected, atol=1e-6, rtol=0)


def test_an_image_alone_in_its_class_is_not_changed() -> None:
    x, y, conflict = batch()
    y[0] = 99
    mixed = mix_within_class(x, y, conflict, 1.0, seed=5, step=STEP)
    assert torch.equal(mixed[0], x[0])
    assert not torch.equal(mixed, x)


def test_an_image_keeps_more_than_half_of_itself() -> None:
    """One-hot images show the weights of the mixture."""
    x = torch.eye(20).reshape(20, 1, 4, 5)
    mixed = mix_within_class(x, torch.zeros(20).long(), torch.zeros(20) > 0, 1.0, seed=1, step=STEP)
    own = mixed.flatten(1).diagonal()
    assert bool((own > 0.5).all())
    torch.testing.assert_close(mixed.flatten(1).sum(1), torch.ones(20))


def test_suspects_are_preferred() -> None:
    """If one of ten candidates is a suspect, it is chosen far more often than one time in ten."""
    x = torch.eye(11).reshape(11, 1, 1, 11)
    y, conflict = torch.zeros(11).long(), torch.arange(11) == 10
    hits = [
        float(mix_within_class(x, y, conflict, 1.0, seed=1, step=torch.tensor(t))[0, 0, 0, 10]) > 0
        for t in range(200)
    ]
    assert 0.4 < sum(hits) / 200 < 0.7  # 1/2 + 1/2 · 1/10 is expected


def test_a_flat_image_stays_finite() -> None:
    x = torch.ones(4, 3, 5, 5) * torch.arange(4.0)[:, None, None, None]
    assert bool(mix_style(x, 1.0, seed=1, step=STEP).isfinite().all())


def test_style_moves_the_mean_and_spread_and_keeps_the_pattern() -> None:
    x, _, _ = batch()
    moved = mix_style(x, 1.0, seed=5, step=STEP)
    pattern = (x - x.mean((2, 3), keepdim=True)) / x.std((2, 3), keepdim=True)
    after = (moved - moved.mean((2, 3), keepdim=True)) / moved.std((2, 3), keepdim=True)
    torch.testing.assert_close(after, pattern, atol=1e-4, rtol=0)
    assert not torch.allclose(moved.mean((2, 3)), x.mean((2, 3)), atol=1e-2)


def test_mixing_depends_on_seed_and_step_and_never_synchronises() -> None:
    x, y, conflict = batch()
    mixing = Mixing(spectrum=1.0, style=1.0, mix=1.0)
    first = mixing(x, y, conflict, seed=3, step=STEP)
    with NoSync():
        again = mixing(x, y, conflict, seed=3, step=STEP)
    assert torch.equal(first, again)
    assert not torch.equal(first, mixing(x, y, conflict, seed=4, step=STEP))
    assert not torch.equal(first, mixing(x, y, conflict, seed=3, step=STEP + 1))


def test_without_mixing_images_are_not_changed() -> None:
    x, y, conflict = batch()
    assert Mixing()(x, y, conflict, seed=3, step=STEP) is x


def test_resident_and_streamed_batches_are_the_same() -> None:
    g = torch.Generator().manual_seed(0)
    split = Split(
        torch.randint(0, 256, (30, 3, 6, 6), generator=g, dtype=torch.uint8), torch.arange(30) % 4
    )
    options = {
        "device": torch.device("cpu"),
        "preprocess": Preprocess(),
        "augment": "crop-flip",
        "mixing": Mixing(spectrum=1.0, style=1.0, mix=1.0),
        "seed": 9,
        "conflict": torch.arange(30) % 5 == 0,
    }
    index = torch.tensor([3, 8, 1, 29, 3, 12, 7, 20])
    one = Resident(split, **options).batch(index, STEP)
    other = Streaming(split, **options).batch(index, STEP)
    assert torch.equal(one.x, other.x)
    plain = Resident(split, **{**options, "mixing": Mixing()}).batch(index, STEP)
    assert not torch.equal(one.x, plain.x)
    assert torch.equal(one.y, plain.y)
    assert torch.equal(one.conflict, plain.conflict)


def slow_spectrum(x: Tensor, probability: float, seed: int, step: int) -> Tensor:
    """Mix spectra by definition, with full transforms, image by image, in double precision."""
    order, chance, amount = noise.uniform(seed, step, noise.SPECTRUM, (3, len(x))).tolist()
    other = sorted(range(len(x)), key=lambda i: order[i])
    out = x.double().clone()
    for i in range(len(x)):
        if chance[i] >= probability:
            continue
        for c in range(x.shape[1]):
            mine, theirs = (torch.fft.fft2(x[k, c].double()) for k in (i, other[i]))
            amplitude = (1 - amount[i]) * mine.abs() + amount[i] * theirs.abs()
            out[i, c] = torch.fft.ifft2(torch.polar(amplitude, mine.angle())).real
    return out


@pytest.mark.parametrize("size", [(5, 4), (6, 6), (7, 9)])
def test_spectrum_against_the_definition(size: tuple[int, int]) -> None:
    x = 10 * torch.randn(9, 3, *size, generator=torch.Generator().manual_seed(2))
    fast = mix_spectrum(x, 0.7, seed=5, step=STEP)
    # The small number added to amplitudes changes values in the fourth digit.
    torch.testing.assert_close(fast.double(), slow_spectrum(x, 0.7, 5, 7), atol=5e-3, rtol=0)


def test_spectrum_keeps_phases_and_takes_amplitudes() -> None:
    x, _, _ = batch()
    moved = mix_spectrum(x, 1.0, seed=5, step=STEP)
    before, after = torch.fft.rfft2(x), torch.fft.rfft2(moved)
    inner = (slice(None), slice(None), slice(1, None), slice(1, 2))  # frequencies with a free phase
    angle = (after[inner] / before[inner]).angle()
    torch.testing.assert_close(angle, torch.zeros_like(angle), atol=1e-3, rtol=0)
    assert not torch.allclose(after.abs(), before.abs(), atol=1e-2)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
@pytest.mark.parametrize("n", [1, 2, 12, 255, 256, 257, 700])
@pytest.mark.parametrize("probability", [0.4, 1.0])
def test_kernels_choose_the_same_partners(n: int, probability: float) -> None:
    """Partners and weights from the kernels are compared with plain operations on the CPU."""
    generator = torch.Generator().manual_seed(n)
    y = torch.randint(0, 5, (n,), generator=generator)
    conflict = torch.rand(n, generator=generator) < 0.3
    for step in (torch.tensor(0), torch.tensor(2**31 + 9)):
        plain = mixing._partners(
            n, probability, noise.STYLE, seed=3, step=step, device=torch.device("cpu")
        )
        fused = mixing._partners(
            n, probability, noise.STYLE, seed=3, step=step.cuda(), device=torch.device("cuda")
        )
        assert all(torch.equal(a, b.cpu()) for a, b in zip(plain, fused, strict=True))
        plain = mixing._class_partners(y, conflict, probability, seed=3, step=step)
        fused = mixing._class_partners(
            y.cuda(), conflict.cuda(), probability, seed=3, step=step.cuda()
        )
        is_mixed = plain[1] > 0  # an image without another of its class is not mixed
        assert torch.equal(plain[1], fused[1].cpu())
        assert torch.equal(plain[0][is_mixed], fused[0].cpu()[is_mixed])


def plain_style(x: Tensor, probability: float) -> Tensor:
    """Mix styles with the operations that a GPU uses."""
    other, a = mixing._partners(
        len(x), probability, noise.STYLE, seed=5, step=STEP, device=x.device
    )
    variance, mean = torch.var_mean(x, dim=(2, 3), correction=0, keepdim=True)
    spread = variance.sqrt() + mixing.SPREAD
    scale = 1 + a * (spread[other] / spread - 1)
    return x * scale + (mean * (1 - scale) + a * (mean[other] - mean))


def plain_spectrum(x: Tensor, probability: float) -> Tensor:
    """Mix spectra without operations in place."""
    stream, device = noise.SPECTRUM, x.device
    other, a = mixing._partners(len(x), probability, stream, seed=5, step=STEP, device=device)
    frequencies = torch.fft.rfft2(x)
    amplitude = frequencies.abs()
    scale = 1 + a * (amplitude[other] / (amplitude + mixing.SPREAD) - 1)
    return torch.fft.irfft2(frequencies * scale, s=x.shape[2:])


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("shape", [(64, 3, 28, 28), (16, 1, 9, 14), (3, 4, 1, 5)])
def test_the_fast_forms_on_a_cpu_have_the_bits_of_the_plain_ones(
    shape: tuple[int, ...], layout: torch.memory_format
) -> None:
    pixels = torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(2))
    x = (pixels.to(torch.uint8) / 255).to(memory_format=layout)
    before = x.clone()
    for fast, plain in ((mix_style, plain_style), (mix_spectrum, plain_spectrum)):
        found, expected = fast(x, 0.8, seed=5, step=STEP), plain(x, 0.8)
        assert torch.equal(found, expected)
        assert found.stride() == expected.stride()
    assert torch.equal(x, before)


def test_sums_between_two_numbers_are_rounded_as_in_torch() -> None:
    """Dark images with few values often have a mean in the middle between two numbers of float32."""
    g = torch.Generator().manual_seed(3)
    pixels = torch.randint(0, 256, (4000, 1, 28, 28), generator=g)
    pixels *= torch.rand(pixels.shape, generator=g) < 0.01
    x = pixels.to(torch.uint8) / 255
    assert bool(
        (x.double().mean((2, 3)).float() != torch.var_mean(x, (2, 3), correction=0)[1]).any()
    )
    expected = mixing._exact_variance_and_mean(x)
    for found, wanted in zip(mixing._variance_and_mean(x), expected, strict=True):
        assert torch.equal(found, wanted)
