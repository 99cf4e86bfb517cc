"""The public folder layout: writing and reading, its variants, and errors in it."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image

from unspur.data.benchmarks import cmnist, embedded, layout
from unspur.data.benchmarks.mnist import Digits
from unspur.data.splits import Split, Splits
from unspur.errors import DataError


def coloured(seed: int = 0, conflicting: int = 30) -> Splits:
    digits = Digits(*(part[::50] for part in embedded.digits()))  # 200 and 40 of them
    return cmnist.generate(digits, conflicting=conflicting, valid=50, seed=seed)


@pytest.fixture(scope="module")
def splits() -> Splits:
    return coloured()


@pytest.fixture(scope="module")
def written(splits: Splits, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets") / "cmnist"
    layout.write(splits, folder, "1pct")
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """Return a copy of the written set, which a test may damage."""
    return Path(shutil.copytree(written, tmp_path / "cmnist"))


def identifiers(split: Split) -> torch.Tensor:
    assert split.names is not None
    return torch.tensor([int(Path(name).name.split("_")[0]) for name in split.names])


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.png"))


def test_round_trip_is_exact(splits: Splits, written: Path) -> None:
    back = layout.read(written, "1pct", classes=splits.classes, bias_classes=splits.bias_classes)
    assert back.name == "cmnist/1pct"
    assert back.classes == splits.classes
    assert back.bias_classes == splits.bias_classes
    assert back.parts().keys() == splits.parts().keys()
    for part, split in back.parts().items():
        original, order = splits.parts()[part], identifiers(split)
        assert sorted(order.tolist()) == list(range(len(original)))
        assert torch.equal(split.images, original.images[order])
        assert torch.equal(split.targets, original.targets[order])
        assert torch.equal(back.bias[part], splits.bias[part][order])


def test_the_written_files(splits: Splits, written: Path) -> None:
    assert sorted(path.name for path in written.iterdir()) == ["1pct", "test"]
    assert sorted(path.name for path in (written / "1pct").iterdir()) == [
        *("align", "conflict", "valid")
    ]
    assert len(files(written / "1pct" / "align")) == 120
    assert len(files(written / "1pct" / "conflict")) == 30
    target, bias = int(splits.train.targets[7]), int(splits.bias["train"][7])
    kind = "align" if target == bias else "conflict"
    assert (written / "1pct" / kind / str(target) / f"00007_{target}_{bias}.png").is_file()
    assert all("/" not in name for name in files(written / "1pct" / "valid"))
    assert all(name[0] == name.split("_")[1] for name in files(written / "test"))


def test_order_is_that_of_the_sorted_paths(written: Path) -> None:
    back = layout.read(written, "1pct")
    for part, under in (("train", "1pct"), ("valid", "1pct"), ("test", "test")):
        names = back.parts()[part].names
        assert names is not None
        assert list(names) == sorted(names)
        assert all(name.startswith(under) and (written / name).is_file() for name in names)


def test_classes_without_names_are_numbers(written: Path) -> None:
    back = layout.read(written, "1pct")
    assert back.classes == back.bias_classes == tuple("0123456789")


def rename_conflict(folder: Path) -> None:
    (folder / "1pct" / "conflict").rename(folder / "1pct" / "conlict")


def nest_valid(folder: Path) -> None:
    for path in list((folder / "1pct" / "valid").iterdir()):
        nested = path.parent / path.stem.split("_")[-2]
        nested.mkdir(exist_ok=True)
        path.rename(nested / path.name)


def flatten_test(folder: Path) -> None:
    for path in list((folder / "test").glob("*/*.png")):
        path.rename(folder / "test" / path.name)


def share_valid(folder: Path) -> None:
    (folder / "1pct" / "valid").rename(folder / "valid")


def own_test(folder: Path) -> None:
    (folder / "test").rename(folder / "1pct" / "test")


def lengthen_names(folder: Path) -> None:
    for path in list((folder / "test").rglob("*.png")):
        path.rename(path.with_name(f"{path.name[:5]}_some_more{path.name[5:]}"))


def add_clutter(folder: Path) -> None:
    (folder / "1pct" / "align" / "0" / "._00000_0_0.png").write_bytes(b"resource fork")
    (folder / "1pct" / "align" / "Thumbs.db").write_bytes(b"clutter")
    shutil.copytree(folder / "1pct" / "conflict", folder / "1pct" / "extra_conflict")


@pytest.mark.parametrize(
    "change",
    [rename_conflict, nest_valid, flatten_test, share_valid, own_test, lengthen_names, add_clutter],
)
def test_variants_of_the_layout(
    splits: Splits, folder: Path, change: Callable[[Path], None]
) -> None:
    change(folder)
    back = layout.read(folder, "1pct")
    for part, original in splits.parts().items():
        split = back.parts()[part]
        order = identifiers(split)
        assert len(split) == len(original)
        assert torch.equal(split.images, original.images[order])
        assert torch.equal(back.bias[part], splits.bias[part][order])


def test_any_ratio_two_classes_and_jpeg(tmp_path: Path) -> None:
    for index, (target, bias) in enumerate([(0, 0), (1, 1), (0, 1), (1, 0)]):
        path = tmp_path / "7.25pct" / ("align" if target == bias else "conflict") / str(target)
        path.mkdir(parents=True)
        shade = 50 * index
        Image.new("RGB", (12, 9), (shade, shade, shade)).save(path / f"{index}_{target}_{bias}.JPG")
    back = layout.read(tmp_path, "7.25pct", classes=("young", "old"), bias_classes=("f", "m"))
    assert back.train.images.shape == (4, 3, 9, 12)
    assert back.train.images[:, 0, 0, 0].tolist() == [0, 50, 100, 150]
    assert back.train.targets.tolist() == [0, 1, 0, 1]
    assert back.bias["train"].tolist() == [0, 1, 1, 0]
    assert back.valid is None
    assert back.test is None


def test_two_ratios_share_one_test_split(tmp_path: Path) -> None:
    layout.write(coloured(conflicting=10), tmp_path, "3pct")
    inode = (tmp_path / "test").stat().st_ino
    layout.write(coloured(conflicting=30), tmp_path, "10pct")
    assert (tmp_path / "test").stat().st_ino == inode
    sizes = {ratio: len(files(tmp_path / ratio / "conflict")) for ratio in ("3pct", "10pct")}
    assert sizes == {"3pct": 10, "10pct": 30}


def test_another_test_split_is_not_mixed_in(tmp_path: Path) -> None:
    layout.write(coloured(seed=0), tmp_path, "1pct")
    with pytest.raises(DataError, match=r"test holds another test split"):
        layout.write(coloured(seed=1), tmp_path, "2pct")
    assert not (tmp_path / "2pct").exists()
    first(tmp_path, "test").write_bytes(b"damaged")
    with pytest.raises(DataError, match=r"test holds another test split"):
        layout.write(coloured(seed=0), tmp_path, "2pct")
    layout.write(coloured(seed=0), tmp_path, "2pct", overwrite=True)
    assert len(layout.read(tmp_path, "2pct").parts()["test"]) == 40


def test_overwriting_needs_permission(tmp_path: Path) -> None:
    layout.write(coloured(seed=0), tmp_path, "1pct")
    with pytest.raises(DataError, match=r"1pct exists already"):
        layout.write(coloured(seed=1), tmp_path, "1pct")
    other = coloured(seed=1)
    layout.write(other, tmp_path, "1pct", overwrite=True)
    back = layout.read(tmp_path, "1pct")
    for part, split in back.parts().items():
        order = identifiers(split)
        assert torch.equal(split.images, other.parts()[part].images[order])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1pct", "test"]


def test_an_interrupted_write_leaves_nothing_that_looks_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, saved = Image.Image.save, []

    def fail_late(image: Image.Image, path: Path) -> None:
        saved.append(path)
        if len(saved) > 100:  # after the test split, amid the training images
            raise KeyboardInterrupt
        save(image, path)

    monkeypatch.setattr(Image.Image, "save", fail_late)
    with pytest.raises(KeyboardInterrupt):
        layout.write(coloured(), tmp_path, "1pct")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["test"]
    assert len(files(tmp_path / "test")) == 40
    with pytest.raises(DataError, match="there is no folder"):
        layout.read(tmp_path, "1pct")
    monkeypatch.undo()
    (tmp_path / ".1pct.partial" / "align").mkdir(parents=True)  # what a killed process leaves
    layout.write(coloured(), tmp_path, "1pct")
    assert len(layout.read(tmp_path, "1pct").train) == 150


def test_a_failed_overwrite_keeps_the_old_set(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(folder)

    def fail(image: Image.Image, path: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Image.Image, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        layout.write(coloured(conflicting=50), folder, "1pct", overwrite=True)
    assert files(folder) == before


def test_an_overwrite_that_was_killed_at_the_last_moment_keeps_the_old_set(
    written: Path, tmp_path: Path
) -> None:
    """Killed between its two renames, it has left the old set under another name."""
    folder = shutil.copytree(written, tmp_path / "set")
    (folder / "1pct").rename(folder / ".1pct.old")
    with pytest.raises(RuntimeError, match="full"), layout._staging_folder(folder / "1pct"):
        raise RuntimeError("full")
    assert len(layout.read(folder, "1pct").train) == len(layout.read(written, "1pct").train)


def test_an_overwrite_that_fails_at_the_last_moment_keeps_the_old_set(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, rename = files(folder), Path.rename

    def fail(path: Path, target: Path) -> Path:
        if path.name.endswith(".partial"):
            raise OSError("not permitted")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OSError, match="not permitted"):
        layout.write(coloured(conflicting=50), folder, "1pct", overwrite=True)
    assert files(folder) == before


def first(folder: Path, part: str) -> Path:
    return sorted((folder / part).rglob("*.png"))[0]


def error(folder: Path, ratio: str = "1pct", **options: tuple[str, ...]) -> str:
    with pytest.raises(DataError) as caught:
        layout.read(folder, ratio, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    "name", ["digit.png", "7_0.png", "7_zero_0.png", "7_0_-1.png", "7_0_².png"]
)
def test_a_bad_name(folder: Path, name: str) -> None:
    path = first(folder, "1pct/align").rename(folder / "1pct" / "align" / "0" / name)
    assert error(folder).startswith(f"{path}: the name must be <id>_<target>_<bias>.png")


def test_an_unreadable_image(folder: Path) -> None:
    path = first(folder, "1pct/conflict")
    path.write_bytes(b"no image")
    assert f"{path} cannot be read as an image" in error(folder)
    broken = first(folder, "test")
    path.write_bytes(broken.read_bytes())
    broken.write_bytes(broken.read_bytes()[:80])
    assert f"{broken} cannot be read as an image" in error(folder)


def test_images_of_two_sizes(folder: Path) -> None:
    usual, odd = first(folder, "1pct/align"), first(folder, "1pct/conflict")
    Image.new("RGB", (30, 20)).save(odd)
    assert f"{odd} is 30x20 but {usual} is 28x28 pixels" in error(folder)


def test_splits_of_two_sizes(folder: Path) -> None:
    for path in (folder / "test").rglob("*.png"):
        Image.new("RGB", (30, 20)).save(path)
    assert "test images are (3, 20, 30), training images (3, 28, 28)" in error(folder)


@pytest.mark.parametrize("part", ["1pct/align", "test"])
def test_a_file_in_the_folder_of_another_class(folder: Path, part: str) -> None:
    path = first(folder, part)
    moved = path.rename(folder / part / "3" / path.name)
    assert error(folder) == (
        f"{moved}: the name says target 0, the folder 3. Move or rename the file."
    )


def test_a_conflicting_file_among_the_aligned(folder: Path) -> None:
    path = first(folder, "1pct/conflict/2")
    moved = path.rename(folder / "1pct" / "align" / "2" / path.name)
    assert error(folder).startswith(f"{moved}: target 2 and bias ")
    assert "belong in conflict/" in error(folder)


def test_labels_beyond_the_named_classes(folder: Path) -> None:
    assert "target 9 is outside 0..1 (young, old)" in error(folder, classes=("young", "old"))
    assert "bias 9 is outside 0..1 (f, m)" in error(folder, bias_classes=("f", "m"))


def test_missing_folders(folder: Path) -> None:
    assert error(folder, "5pct") == (
        f"there is no folder {folder / '5pct'}. Ratios found in {folder}: 1pct."
    )
    assert "Ratios found in nowhere: none" in error(Path("nowhere"))
    shutil.rmtree(folder / "1pct" / "conflict")
    assert "needs the two folders align/ and conflict/" in error(folder)


def test_no_training_images(tmp_path: Path) -> None:
    for name in ("align", "conflict"):
        (tmp_path / "1pct" / name).mkdir(parents=True)
    assert "holds no training image" in error(tmp_path)


def test_a_set_that_cannot_be_read_back_is_not_written(splits: Splits, tmp_path: Path) -> None:
    grey = Split(splits.train.images[:, :1], splits.train.targets)
    for changed, message in (
        (dataclasses.replace(splits, train=grey, valid=None, test=None), "3 channels"),
        (dataclasses.replace(splits, bias={"train": splits.bias["train"]}), "for test, valid"),
        (dataclasses.replace(splits, conflict_when="equal"), "they are equal"),
    ):
        with pytest.raises(DataError, match=message):
            layout.write(changed, tmp_path, "1pct")
    assert list(tmp_path.iterdir()) == []


def test_a_set_without_conflicts_or_other_splits(splits: Splits, tmp_path: Path) -> None:
    aligned = splits.train.targets == splits.bias["train"]
    train = Split(splits.train.images[aligned], splits.train.targets[aligned])
    alone = Splits(
        train=train, classes=splits.classes, bias={"train": splits.bias["train"][aligned]}
    )
    layout.write(alone, tmp_path, "0pct")
    back = layout.read(tmp_path, "0pct")
    assert len(back.train) == 120
    assert back.parts().keys() == {"train"}
