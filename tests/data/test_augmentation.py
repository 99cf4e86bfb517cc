"""Random resized crops: compared with the definition, and without host synchronisation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from toys import NoSync
from unspur import noise
from unspur.data import augmentation
from unspur.data.augmentation import augment_images


def images(n: int = 40, high: int = 12, wide: int = 16) -> Tensor:
    g = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (n, 3, high, wide), generator=g, dtype=torch.uint8)


def slow_windows(n: int, high: int, wide: int, *, seed: int, step: int) -> list[tuple[int, ...]]:
    """Choose windows as published: up to ten tries for one that fits, otherwise the whole image."""
    area, ratio = (
        noise.uniform(seed, step, stream, (n, 10)).double()
        for stream in (noise.CROP_AREA, noise.CROP_RATIO)
    )
    row, column = (
        noise.uniform(seed, step, stream, (n, 1)).double().flatten().tolist()
        for stream in (noise.CROP_ROW, noise.CROP_COLUMN)
    )
    windows = []
    for i in range(n):
        found = (high, wide)
        for a, r in zip(area[i].tolist(), ratio[i].tolist(), strict=True):
            size = high * wide * (0.7 + 0.3 * a)
            shape = math.exp(math.log(3 / 4) + (math.log(4 / 3) - math.log(3 / 4)) * r)
            w, h = round(math.sqrt(size * shape)), round(math.sqrt(size / shape))
            if w <= wide and h <= high:
                found = (h, w)
                break
        h, w = found
        windows.append((int(row[i] * (high - h + 1)), int(column[i] * (wide - w + 1)), h, w))
    return windows


@pytest.mark.parametrize(("high", "wide"), [(12, 16), (32, 32), (30, 11)])
def test_windows_against_a_slow_oracle(high: int, wide: int) -> None:
    draw = augmentation.Draw(60, 3, torch.tensor(7), torch.device("cpu"))
    fast = augmentation._windows((high, wide), draw)
    expected = slow_windows(60, high, wide, seed=3, step=7)
    assert torch.stack(fast, 1).int().tolist() == [list(window) for window in expected]


def test_pixels_against_pillow() -> None:
    """Crop, then resize bilinearly. Pillow rounds in fixed point, so a value may differ by one."""
    given = images(high=24, wide=24)
    zoomed = augment_images(given, "resized-crop-flip", seed=3, step=torch.tensor(7))
    assert zoomed.dtype == torch.uint8
    flipped = augment_images(given, "flip", seed=3, step=torch.tensor(7))
    for i, (top, left, h, w) in enumerate(slow_windows(40, 24, 24, seed=3, step=7)):
        part = flipped[i, :, top : top + h, left : left + w].permute(1, 2, 0).numpy()
        large = Image.fromarray(np.ascontiguousarray(part)).resize(
            (24, 24), Image.Resampling.BILINEAR
        )
        difference = np.asarray(large).transpose(2, 0, 1).astype(int) - zoomed[i].numpy()
        assert np.abs(difference).max() <= 1


def test_floats_are_not_rounded() -> None:
    given = images().float() / 255
    zoomed = augment_images(given, "resized-crop-flip", seed=1, step=torch.tensor(0))
    assert zoomed.dtype == torch.float32
    assert float(zoomed.min()) >= float(given.min())
    assert float(zoomed.max()) <= float(given.max())


def test_a_function_of_seed_and_step_without_a_host_sync() -> None:
    given, step = images(), torch.tensor(4)
    with NoSync():
        first = augment_images(given, "resized-crop-flip", seed=1, step=step)
    assert torch.equal(first, augment_images(given, "resized-crop-flip", seed=1, step=step))
    assert not torch.equal(first, augment_images(given, "resized-crop-flip", seed=1, step=step + 1))
    assert not torch.equal(first, augment_images(given, "resized-crop-flip", seed=2, step=step))


def test_crops_have_the_requested_area() -> None:
    draw = augmentation.Draw(4000, 0, torch.tensor(0), torch.device("cpu"))
    _, _, h, w = augmentation._windows((100, 100), draw)
    area = h * w / 10_000
    assert float(area.min()) > 0.68
    assert 0.8 < float(area.mean()) < 0.86
    assert float((w / h).max()) < 1.36
    assert float((w / h).min()) > 0.73
