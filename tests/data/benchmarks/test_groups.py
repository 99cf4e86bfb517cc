"""Available data sets, their counts by group, and the sheet of examples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from toys import real_mnist, shapes_set
from unspur import data
from unspur.data.benchmarks import cifar10, cifar10c, cmnist, groups, sheet
from unspur.data.splits import Split, Splits
from unspur.errors import DataError


def test_every_set_has_a_loader() -> None:
    assert set(groups.RATIOS) == set(data.DATASETS) - {"folder"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cmnist", "MNIST is incomplete: neither train-images-idx3-ubyte nor"),
        ("cifar10c", "there is no CIFAR-10 in"),
        ("cifar10", "there is no CIFAR-10 in"),
        ("bffhq", "Get the public release and put its folders 0.5pct/align"),
        ("celeba", "list_attr_celeba.txt is missing"),
    ],
)
def test_a_missing_set_says_where_to_put_it(tmp_path: Path, name: str, message: str) -> None:
    state = groups.state(name, tmp_path)
    assert message in state
    assert str(tmp_path) in state


def test_available_sets_are_ready(tmp_path: Path) -> None:
    (tmp_path / "cmnist" / "1pct").mkdir(parents=True)
    (tmp_path / "bffhq" / "1pct").mkdir(parents=True)
    folder = tmp_path / "celeba"
    (folder / "img_align_celeba").mkdir(parents=True)
    (folder / "metadata_blonde_subsampled.csv").touch()
    for name in ("cmnist", "bffhq", "celeba"):
        assert groups.state(name, tmp_path) == "ready"
    assert groups.state("demo", None) == "ready (embedded)"
    assert "there is no data folder" in groups.state("cmnist", tmp_path / "none")


def test_tables_count_every_group() -> None:
    splits = shapes_set(samples=40, conflicting=6)
    for part, (header, *rows) in groups.tables(splits).items():
        assert header == ["0", "1"]
        for label, (name, *cells) in enumerate(rows):
            own = splits.parts()[part].targets == label
            assert name == splits.classes[label]
            assert [int(cell) for cell in cells] == [
                int((own & (splits.bias[part] == bias)).sum()) for bias in (0, 1)
            ]


def test_tables_without_groups() -> None:
    splits = replace(shapes_set(samples=40), bias={})
    header, *rows = groups.tables(splits)["train"]
    assert header == ["images"]
    assert sum(int(row[1]) for row in rows) == 40
    assert list(groups.verify(splits)) == ["bars: 40 training images; no bias labels."]


def test_counts_are_compared_with_the_published_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    splits = shapes_set(samples=40, conflicting=6)
    assert "no published count" in next(groups.verify(splits))
    monkeypatch.setitem(groups.PUBLISHED, "bars", (34, 6))
    found = next(groups.verify(splits))
    assert all(
        words in found for words in ("34 aligned", "6 conflicting", "15.00 %", "as published")
    )
    monkeypatch.setitem(groups.PUBLISHED, "bars", (33, 7))
    assert "published numbers are 33 and 7" in next(groups.verify(splits))


@pytest.mark.real
def test_the_real_counts() -> None:
    splits = cmnist.make(real_mnist(), "1pct")
    assert next(groups.verify(splits)).endswith("as published.")


# The sheet


def marked(samples: int = 40) -> Splits:
    """Return images of one grey value each, which is the index of the image."""
    base = shapes_set(samples=samples, conflicting=6)
    grey = torch.arange(samples, dtype=torch.uint8)[:, None, None, None].expand(-1, 3, 8, 8)
    return replace(base, train=Split(grey.contiguous(), base.train.targets))


def test_the_sheet_has_aligned_above_a_dotted_line_and_conflicting_below(tmp_path: Path) -> None:
    splits = marked()
    sheet.save(splits, tmp_path / "new" / "sheet.png", columns=4)
    with Image.open(tmp_path / "new" / "sheet.png") as image:
        pixels = np.asarray(image)
    cell, half = 8 + sheet.GAP, 3 * (8 + sheet.GAP) + sheet.GAP
    assert pixels.shape == (2 * half + sheet.LINE, 4 * cell + sheet.GAP, 3)
    conflicting = splits.conflicting("train")
    assert conflicting is not None
    for top, chosen in ((0, ~conflicting), (half + sheet.LINE, conflicting)):
        for label in (0, 1):
            own = (chosen & (splits.train.targets == label)).nonzero().flatten()[:6].tolist()
            for place, index in enumerate(own):
                y = top + sheet.GAP + place // 2 * cell
                x = sheet.GAP + (2 * label + place % 2) * cell
                assert (pixels[y : y + 8, x : x + 8] == index).all()
    line = pixels[half : half + sheet.LINE].min(axis=(0, 2))
    assert 0.2 < (line < 255).mean() < 0.5  # dots, not a bar


def test_a_sheet_of_grey_floats_and_empty_places() -> None:
    base = shapes_set(samples=12, conflicting=1)
    split = Split(torch.randn(12, 1, 8, 8), base.train.targets)
    splits = Splits(train=split, classes=base.classes, bias={"train": base.bias["train"]})
    pixels = np.asarray(sheet.render(splits))
    assert (pixels[..., 0] == pixels[..., 2]).all()


def test_a_sheet_needs_bias_labels(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no bias labels"):
        sheet.render(replace(shapes_set(samples=20), bias={}))
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot write"):
        sheet.save(marked(), tmp_path / "file" / "sheet.png")


# By name


def test_a_size_is_for_sets_that_are_decoded(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"demo have a fixed size, .*64"):
        data.load("demo", size=64)
    folder = tmp_path / "bffhq"
    for number, (target, bias) in enumerate([(0, 0), (1, 1), (0, 1), (1, 0)]):
        kind = "align" if target == bias else "conflict"
        for place in (folder / "1pct" / kind / str(target), folder / "valid", folder / "test"):
            place.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (20, 20), (number, 0, 0)).save(place / f"{number}_{target}_{bias}.png")
    splits = data.load("bffhq", root=tmp_path, ratio="1pct", size=10)
    assert splits.train.shape == (3, 10, 10)
    assert data.load("bffhq", root=tmp_path, ratio="1pct").train.shape == (3, 128, 128)
    assert len(list((tmp_path / ".cache").glob("*.npy"))) == 6


@pytest.mark.parametrize("name", ["cifar10", "cifar10c"])
def test_cifar_images_can_be_resized(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = shapes_set(samples=20)  # 8 x 8 pixels
    monkeypatch.setattr(cifar10, "load_plain", lambda root, seed: known)
    monkeypatch.setattr(cifar10c, "load", lambda root, ratio, seed, cache: known)
    assert data.load(name, root=tmp_path) is known
    assert data.load(name, root=tmp_path, size=8) is known
    larger = data.load(name, root=tmp_path, size=24)
    for part, images in larger.parts().items():
        assert images.shape == (3, 24, 24)
        assert images.dtype == torch.uint8
        assert torch.equal(images.targets, known.parts()[part].targets)
    centres = larger.train.take(torch.arange(4))[:, :, 1::3, 1::3]
    assert torch.equal(centres, known.train.take(torch.arange(4)))  # bilinear, aligned at centres


def test_pixels_are_cached_in_the_home_folder_if_the_data_is_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert data.cache_folder(tmp_path) == tmp_path / ".cache"
    monkeypatch.setattr("os.access", lambda path, mode: False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert data.cache_folder(tmp_path) == Path("/caches/unspur")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data.cache_folder(tmp_path) == Path.home() / ".cache" / "unspur"
