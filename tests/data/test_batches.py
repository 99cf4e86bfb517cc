"""Batches: pixels, normalisation, and augmentation, compared with slow reference code."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from unspur import noise
from unspur.data.augmentation import augment_images
from unspur.data.batches import Preprocess, Resident, _column
from unspur.data.splits import Split

CPU = torch.device("cpu")
MEAN, STD = (0.5, 0.25, 0.125), (0.5, 0.25, 2.0)


def images(n: int = 16, *, height: int = 6, width: int = 5) -> Tensor:
    g = torch.Generator().manual_seed(0)
    return torch.randint(1, 256, (n, 3, height, width), generator=g, dtype=torch.uint8)


def source(pixels: Tensor, **kwargs: Any) -> Resident:
    kwargs = {"preprocess": Preprocess(), **kwargs}
    return Resident(Split(pixels, torch.arange(len(pixels)) % 3), device=CPU, **kwargs)


def at(step: int) -> Tensor:
    return torch.tensor(step)


def augment_slowly(pixels: Tensor, how: str, *, seed: int, step: int, border: int = 4) -> Tensor:
    """Augment pixel by pixel: flip, then crop from the image with a black border."""
    n, _, height, width = pixels.shape
    flip, down, right = (
        noise.uniform(seed, step, stream, (n,)).tolist()
        for stream in (noise.FLIP, noise.CROP_ROW, noise.CROP_COLUMN)
    )
    out = torch.zeros_like(pixels)
    for i in range(n):
        crop = how == "crop-flip"
        top = int(down[i] * (2 * border + 1)) - border if crop else 0
        left = int(right[i] * (2 * border + 1)) - border if crop else 0
        for row in range(height):
            for column in range(width):
                y, x = row + top, column + left
                if 0 <= y < height and 0 <= x < width:
                    out[i, :, row, column] = pixels[i, :, y, width - 1 - x if flip[i] < 0.5 else x]
    return out


def test_bytes_are_scaled_to_one() -> None:
    pixels = torch.tensor([0, 51, 255], dtype=torch.uint8).reshape(1, 1, 1, 3)
    assert torch.equal(Preprocess()(pixels).flatten(), torch.tensor([0.0, 0.2, 1.0]))


def test_floats_are_not_changed() -> None:
    pixels = torch.tensor([-3.0, 0.5, 300.0]).reshape(1, 1, 1, 3)
    assert torch.equal(Preprocess()(pixels), pixels)


@pytest.mark.parametrize("kind", [torch.uint8, torch.float32])
def test_normalisation_by_channel(kind: torch.dtype) -> None:
    pixels = images().to(kind)
    x = Preprocess(MEAN, STD)(pixels)
    for channel, (mean, std) in enumerate(zip(MEAN, STD, strict=True)):
        scaled = pixels[:, channel].float() / (255 if kind == torch.uint8 else 1)
        torch.testing.assert_close(x[:, channel], (scaled - mean) / std)


def test_a_batch_contains_the_requested_samples() -> None:
    pixels, index = images(), torch.tensor([3, 3, 0, 9])
    conflict, bias = torch.arange(16) % 2 == 1, torch.arange(16) + 100
    batches = source(pixels, preprocess=Preprocess(MEAN, STD), conflict=conflict, bias=bias)
    batch = batches.batch(index, at(5))
    by_hand = (pixels[index].float() / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(
        STD
    ).view(3, 1, 1)
    assert torch.equal(batch.x, by_hand)
    assert batch.y.tolist() == [0, 0, 0, 0]
    assert torch.equal(batch.index, index)
    assert batch.conflict.tolist() == [True, True, False, True]
    assert batch.bias.tolist() == [103, 103, 100, 109]
    assert batch.step == 5


def test_by_default_no_sample_is_a_suspect_and_no_bias_is_visible() -> None:
    batch = source(images()).batch(torch.arange(16), at(0))
    assert not batch.conflict.any()
    assert batch.bias is None


def test_plain_yields_all_images_in_order() -> None:
    pixels = images()
    parts = list(source(pixels, augment="crop-flip", preprocess=Preprocess(MEAN, STD)).plain(7))
    assert [len(part) for part in parts] == [7, 7, 2]
    assert torch.equal(torch.cat(parts), Preprocess(MEAN, STD)(pixels))


@pytest.mark.parametrize("kind", [torch.uint8, torch.float32])
def test_a_network_that_changes_its_input_does_not_change_stored_images(kind: torch.dtype) -> None:
    batches = source(images().to(kind))
    for x in batches.plain():
        x -= 1
    assert torch.equal(batches.images, images().to(kind))


def test_a_pass_takes_a_thousand_images_at_a_time() -> None:
    assert [len(part) for part in source(images(2100)).plain()] == [1000, 1000, 100]


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
def test_on_a_gpu_a_pass_takes_more_small_images() -> None:
    gpu = torch.device("cuda")
    few = {(32, 32): 4882, (96, 96): 1000}
    for (height, width), size in few.items():
        split = Split(images(5000, height=height, width=width), torch.arange(5000) % 3)
        parts = Resident(split, device=gpu, preprocess=Preprocess()).plain()
        assert len(next(parts)) == size


@pytest.mark.parametrize("how", ["flip", "crop-flip"])
@pytest.mark.parametrize("step", [0, 7])
def test_augmentation_against_a_slow_oracle(how: Any, step: int) -> None:
    pixels = images()
    fast = augment_images(pixels, how, seed=3, step=at(step))
    assert fast.dtype == torch.uint8
    assert torch.equal(fast, augment_slowly(pixels, how, seed=3, step=step))


@pytest.mark.parametrize("how", ["flip", "crop-flip"])
def test_augmentation_of_floats(how: Any) -> None:
    pixels = images().float() / 255 - 0.5
    fast = augment_images(pixels, how, seed=3, step=at(1))
    assert torch.equal(fast, augment_slowly(pixels, how, seed=3, step=1))


def test_without_augmentation_a_batch_does_not_depend_on_the_step() -> None:
    batches = source(images(), augment="none", seed=1)
    index = torch.arange(16)
    assert torch.equal(batches.batch(index, at(0)).x, batches.batch(index, at(1)).x)


@pytest.mark.parametrize("how", ["flip", "crop-flip"])
def test_augmentation_is_a_function_of_seed_and_step(how: Any) -> None:
    index = torch.arange(16)

    def batch(seed: int, step: int) -> Tensor:
        return source(images(), augment=how, seed=seed).batch(index, at(step)).x

    assert torch.equal(batch(1, 4), batch(1, 4))
    assert not torch.equal(batch(1, 4), batch(1, 5))
    assert not torch.equal(batch(1, 4), batch(2, 4))
    batches = source(images(), augment=how, seed=1)
    batches.batch(index, at(0))  # earlier batches do not matter
    assert torch.equal(batches.batch(index, at(4)).x, batch(1, 4))


def test_augmentation_depends_on_the_position_in_the_batch() -> None:
    one = images(1).expand(64, -1, -1, -1)
    flipped = augment_images(one, "flip", seed=0, step=at(0))
    same = (flipped == one).flatten(1).all(1)
    assert 16 < int(same.sum()) < 48  # about half of 64
    assert torch.equal(flipped[~same], one[~same].flip(3))


def test_crops_reach_every_offset() -> None:
    dot = torch.zeros(2000, 1, 9, 9, dtype=torch.uint8)
    dot[:, :, 4, 4] = 1
    moved = augment_images(dot, "crop-flip", seed=0, step=at(0))
    counts = moved.sum(0)[0]  # the dot lands on each of the 9 x 9 places
    assert int(counts.sum()) == 2000
    assert int(counts.min()) > 5
    assert int(counts.max()) < 60


def test_augmentation_does_not_change_stored_images() -> None:
    pixels = images()
    batches = source(pixels.clone(), augment="crop-flip", seed=1)
    batches.batch(torch.arange(16), at(0))
    assert torch.equal(batches.images, pixels)


def test_normalising_works_after_a_trace():
    _column.cache_clear()
    normalise = Preprocess((0.5, 0.5, 0.5), (0.2, 0.3, 0.4))

    class Net(torch.nn.Module):
        def forward(self, x):
            return normalise(x)

    torch.export.export(Net(), (torch.rand(1, 3, 2, 2),))
    assert normalise(torch.full((1, 3, 2, 2), 0.5)).abs().sum().item() == 0


def test_gradients_work_after_normalising_in_inference_mode():
    _column.cache_clear()
    with torch.inference_mode():
        normalise = Preprocess((0.5,), (0.2,))
        normalise(torch.rand(1, 1, 2, 2))
    x = torch.rand(1, 1, 2, 2, requires_grad=True)
    (normalise(x) ** 2).sum().backward()
    assert x.grad is not None
