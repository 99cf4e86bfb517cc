"""`unspur data`: make, list, check, show."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner, Result

from unspur import cli
from unspur.cli import data_commands
from unspur.data.benchmarks import cifar10c, cmnist, layout
from unspur.data.benchmarks.cifar10 import CLASSES, Cifar
from unspur.data.benchmarks.mnist import Digits
from unspur.data.sharded.shard_index import read_index, write_index
from unspur.errors import DataError, RecipeError


def invoke(*arguments: str) -> Result:
    done = CliRunner().invoke(cli.app, ["data", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done


def small_cifar() -> Cifar:
    g = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (120, 3, 32, 32), generator=g, dtype=torch.uint8)
    labels = torch.arange(120) % 10
    return Cifar(images[:80], labels[:80], images[80:], labels[80:])


def small_digits() -> Digits:
    g = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (80, 28, 28), generator=g, dtype=torch.uint8)
    return Digits(images[:60], torch.arange(60) % 10, images[60:], torch.arange(20) % 10)


def test_make_writes_either_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        cifar10c,
        "load",
        lambda root, ratio, **how: cifar10c.generate(
            small_cifar(), aligned=50, conflicting=10, seed=how["seed"], severity=how["severity"]
        ),
    )
    monkeypatch.setattr("unspur.data.benchmarks.mnist.mnist", lambda root: small_digits())
    monkeypatch.setattr(
        cmnist,
        "make",
        lambda digits, ratio, seed: cmnist.generate(digits, conflicting=5, valid=20, seed=seed),
    )
    root = str(tmp_path)
    invoke("make", "cifar10c", "--out", f"{root}/c", "--ratio", "1pct", "--data-root", root)
    invoke("make", "cmnist", "--out", f"{root}/m", "--data-root", root)
    made = layout.read(tmp_path / "c", "1pct", classes=CLASSES)
    assert len(made.train) == 60
    assert sorted(path.name for path in (tmp_path / "m").glob("*pct")) == sorted(cmnist.CONFLICTING)


def test_unknown_sets_cannot_be_made(tmp_path: Path) -> None:
    for name in ("bffhq", "celeba"):
        with pytest.raises(
            RecipeError, match=f"'{name}' cannot be made. Choose one of cmnist, cifar10c"
        ):
            invoke("make", name, "--out", str(tmp_path))


def test_list_says_what_is_missing(tmp_path: Path) -> None:
    said = " ".join(invoke("list", "--data-root", str(tmp_path)).stdout.split())
    assert "ready (embedded)" in said
    for name in ("cmnist", "cifar10c", "cifar10", "bffhq", "celeba"):
        assert name in said
    assert "missing" in said


def test_check_counts_the_groups() -> None:
    said = invoke("check", "demo", "--ratio", "2pct").stdout
    assert "…" not in said  # long names are folded, not cut
    assert "180 conflicting training images" in " ".join(said.split())
    with pytest.raises(DataError, match=r"no benchmark 'fashion'\. Choose one of cmnist"):
        invoke("check", "fashion")


def pack_some(folder: Path) -> Path:
    """Pack twelve images of two classes; return the folder of the shards."""
    for number in range(12):
        (folder / "photos" / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        path = folder / "photos" / "ab"[number % 2] / f"{number}.png"
        Image.new("RGB", (4, 4), (number, 0, 0)).save(path)
    invoke("pack", str(folder / "photos"), str(folder / "shards"))
    return folder / "shards"


@pytest.mark.filterwarnings("ignore:.*fewer than 10 images")
def test_check_counts_shards_at_an_address(tmp_path: Path) -> None:
    filesystem = pytest.importorskip("fsspec").filesystem("memory")
    filesystem.put(str(pack_some(tmp_path)), "/checked/shards", recursive=True)
    assert "12 train images of 2 classes" in invoke("check", "memory://checked/shards").output


@pytest.mark.filterwarnings("ignore:.*fewer than 10 images")
@pytest.mark.parametrize("remote", [False, True])
def test_check_opens_every_image_of_shards(tmp_path: Path, remote: bool) -> None:
    shards = pack_some(tmp_path)
    assert "12 train images" in invoke("check", str(shards)).output
    tar = shards / "train-000000.tar"
    index = read_index(shards)
    changed, broken = (int(index.arrays["offset"][place]) for place in (3, 5))
    content = bytearray(tar.read_bytes())
    content[changed : changed + 8] = content[broken : broken + 8] = b"no image"
    tar.write_bytes(content)
    arrays = {**index.arrays, "sha256": index.arrays["sha256"].copy()}
    size = int(arrays["size"][5])
    digest = hashlib.sha256(content[broken : broken + size]).digest()
    arrays["sha256"][5] = np.frombuffer(digest, np.uint8)
    write_index(replace(index, arrays=arrays), shards)
    where = str(shards)
    if remote:
        where = "memory://damaged/shards"
        filesystem = pytest.importorskip("fsspec").filesystem("memory")
        filesystem.put(str(shards), "/damaged/shards", recursive=True)
    names = [index.names[place] for place in (3, 5)]
    with pytest.raises(
        DataError,
        match=rf"2 of 12 .* {names[0]} \(it is not the image in the index\); {names[1]} \(it is not an",
    ):
        invoke("check", where)


def test_show_draws_a_sheet(tmp_path: Path) -> None:
    invoke("show", "demo", "--out", str(tmp_path / "sheet.png"))
    with Image.open(tmp_path / "sheet.png") as image:
        assert image.size[0] > 10 * 28
        assert np.asarray(image).std() > 10


def test_the_first_ratio_is_the_default() -> None:
    assert data_commands._load("demo", None, None).name == "demo/1pct"


def test_a_reason_that_all_benchmarks_share_is_given_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UNSPUR_DATA", raising=False)
    shown = invoke("list").output
    assert shown.count("there is no data folder") == 1
    assert shown.count("missing") == 9  # eight benchmarks, and the reason below the table


def test_own_images_are_not_offered_where_they_were_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        cli.app, ["data", "show", str(tmp_path), "--out", str(tmp_path / "x.png")]
    )
    assert isinstance(done.exception, DataError)
    assert "there is no benchmark" in str(done.exception)
    assert "your own" not in str(done.exception)
