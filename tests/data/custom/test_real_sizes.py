"""Folders as users have them: large, mixed, grey, deep, transparent; few images, many or rare classes."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import unspur
from toys import TinyNet
from unspur.data.custom import images

SHORT = {f"{table}.steps": 2 for table in ("mine", "pretrain", "prune", "finetune")}


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unspur.data.decoding.readers.available_cores", lambda: 1)


def kinds() -> dict[str, tuple[Image.Image, tuple[int, int, int]]]:
    """Return files of one colour each by name, with the expected pixel."""
    colour = Image.new("RGB", (300, 224), (200, 100, 50))
    clear = Image.new("RGBA", (640, 480), (9, 9, 9, 0))
    half = Image.new("LA", (224, 224), (0, 51))  # an alpha of a fifth
    deep = Image.fromarray(np.full((1024, 768), 0x4040, np.uint16))
    return {
        "a/colour.png": (colour, (200, 100, 50)),
        "a/small.png": (colour.resize((40, 30)), (200, 100, 50)),
        "a/grey.png": (Image.new("L", (500, 224), 77), (77, 77, 77)),
        "a/palette.gif": (Image.new("P", (64, 64), 0), (0, 0, 0)),
        "b/clear.png": (clear, (255, 255, 255)),
        "b/half.png": (half, (204, 204, 204)),
        "b/deep.png": (deep, (64, 64, 64)),
        "b/deep.tif": (deep, (64, 64, 64)),
        "b/floating.tiff": (Image.fromarray(np.full((224, 224), 0.4, np.float32)), (102, 102, 102)),
        "b/integer.tif": (Image.fromarray(np.full((224, 224), 65535, np.int32)), (255, 255, 255)),
    }


@pytest.mark.parametrize("limit", [224, 384])
def test_every_kind_of_file_has_the_right_pixels(tmp_path: Path, limit: int) -> None:
    for name, (image, _) in kinds().items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        image.save(tmp_path / name)
    with pytest.warns(UserWarning, match="fewer than"):
        train = images.load(tmp_path, limit=limit).train
    side = min(limit, 262)  # the median of the longer sides
    assert train.names is not None
    for name, pixels in zip(train.names, train.take(torch.arange(len(train))), strict=True):
        expected = torch.tensor(kinds()[name][1], dtype=torch.uint8)
        assert pixels.shape == (3, side, side)
        assert bool((pixels == expected[:, None, None]).all()), name


def test_twelve_bit_values_give_a_warning(tmp_path: Path) -> None:
    for number in range(24):
        folder = tmp_path / "ab"[number % 2]
        folder.mkdir(exist_ok=True)
        values = np.linspace(0, 4095, 64).reshape(8, 8).astype(np.uint16)
        Image.fromarray(values).save(folder / f"{number}.png")
    with pytest.warns(
        UserWarning, match=r"brightest pixel of all images is 16 of 255\. Values of 12"
    ):
        images.load(tmp_path)


def write_folder(root: Path, counts: list[int], side: int) -> Path:
    """Write images of noise in class folders, with a number of images for each class."""
    rng = np.random.default_rng(0)
    for label, count in enumerate(counts):
        folder = root / f"{label:04d}"
        folder.mkdir(parents=True)
        for number in range(count):
            pixels = rng.integers(0, 256, (side, side, 3), np.uint8)
            Image.fromarray(pixels).save(folder / f"{number}.png", compress_level=1)
    return root


def debiased(folder: Path, classes: int, **how: Any) -> unspur.DebiasedModel:
    settings = {**SHORT, "prune.batch_norm_batches": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few images in a class, which other tests are about
        return unspur.debias(
            folder, model=TinyNet(classes), settings=settings, anyway=True, device="cpu", **how
        )


@pytest.mark.parametrize(
    ("counts", "side", "size"),
    [
        ([25, 25], 224, 224),
        ([300, 3], 8, 0),
        ([2] * 1000, 4, 0),
        ([30, 30], 260, 256),
    ],
    ids=["50 images", "100 to 1", "1,000 classes", "256 pixels"],
)
def test_a_run_ends_with_a_model(tmp_path: Path, counts: list[int], side: int, size: int) -> None:
    folder = write_folder(tmp_path / "photos", counts, side)
    done = debiased(folder, len(counts), size=size, out=tmp_path / "out", store=tmp_path / "store")
    logits = done.model(torch.rand(2, 3, size or side, size or side))
    assert logits.shape == (2, len(counts))
    assert bool(logits.isfinite().all())
    unseen = done.scores["unseen"]
    assert all(math.isfinite(v) for v in unseen["debiased"].values() if v is not None)
    assert (tmp_path / "out" / "model.safetensors").stat().st_size > 0
