"""A user's own images: folders, tables, and everything that can be wrong with them."""

from __future__ import annotations

import os
import sys
import types
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from unspur.data import custom
from unspur.data.custom import class_folders, images, listing, table
from unspur.data.custom.listing import ListedImage, Listing
from unspur.data.custom.sources import GroupSource
from unspur.data.decoding.files import Files
from unspur.data.splits import Split, Splits
from unspur.errors import DataError


@pytest.fixture(autouse=True)
def _two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unspur.data.decoding.readers.available_cores", lambda: 2)


def picture(path: Path, value: int = 0, size: tuple[int, int] = (8, 6)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng([value, *os.fsencode(path.name)])
    Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), np.uint8)).save(path)
    return path


def classes(root: Path, counts: dict[str, int], *, offset: int = 0) -> Path:
    for name, count in counts.items():
        for n in range(count):
            picture(root / name / f"{n:03d}.png", offset + n)
    return root


def messages_of(found: pytest.WarningsRecorder | list[warnings.WarningMessage]) -> list[str]:
    return [str(warning.message) for warning in found]


# Folders


def test_class_folders(tmp_path: Path) -> None:
    root = classes(tmp_path / "photos", {"dog": 12, "cat": 11})
    splits = custom.load(root)
    assert splits.classes == ("cat", "dog")
    assert splits.train.targets.tolist() == [0] * 11 + [1] * 12
    assert splits.train.names is not None
    assert splits.train.names[0] == "cat/000.png"
    assert splits.name == "photos"
    assert (splits.valid, splits.test, dict(splits.bias)) == (None, None, {})
    image = np.asarray(Image.open(root / "dog" / "003.png")).transpose(2, 0, 1)
    assert np.array_equal(splits.train.take(torch.tensor([14]))[0].numpy(), image)


def test_class_names_that_are_numbers_are_sorted_as_numbers(tmp_path: Path) -> None:
    splits = custom.load(classes(tmp_path, {"10": 10, "9": 10, "2": 10}))
    assert splits.classes == ("2", "9", "10")


@pytest.mark.parametrize("name", ["valid", "val", "Validation"])
def test_folders_of_splits(tmp_path: Path, name: str) -> None:
    for offset, part in enumerate(("train", name, "test")):
        classes(tmp_path / part, {"a": 10, "b": 10 + offset}, offset=100 * offset)
    splits = custom.load(tmp_path)
    assert {part: len(split) for part, split in splits.parts().items()} == {
        "train": 20,
        "valid": 21,
        "test": 22,
    }
    assert splits.classes == ("a", "b")


def test_nested_folders_upper_case_and_ignored_files(tmp_path: Path) -> None:
    classes(tmp_path, {"a": 10, "b": 10})
    picture(tmp_path / "a" / "deep" / "er" / "x.png").rename(tmp_path / "a" / "deep" / "X.PNG")
    (tmp_path / "a" / "notes.txt").write_text("no image")
    picture(tmp_path / "a" / ".hidden.png")
    picture(tmp_path / ".thumbnails" / "c" / "x.png")
    assert len(custom.load(tmp_path).train) == 21


def test_links_to_a_parent_folder_are_followed_once(tmp_path: Path) -> None:
    classes(tmp_path, {"a": 10, "b": 10})
    (tmp_path / "a" / "again").symlink_to(tmp_path / "a")
    assert len(custom.load(tmp_path).train) == 20


def test_the_first_of_two_links_to_a_folder_does_not_depend_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes(tmp_path, {"a": 10, "b": 10})
    classes(tmp_path / "elsewhere", {"more": 3})
    for name in ("x", "y"):
        (tmp_path / "a" / name).symlink_to(tmp_path / "elsewhere")
    listed = class_folders.list_images(tmp_path)
    entries = class_folders._entries
    monkeypatch.setattr(class_folders, "_entries", lambda folder: entries(folder)[::-1])
    assert class_folders.list_images(tmp_path) == listed
    assert any("a/x/more" in str(row.path) for row in listed.rows)


def test_two_folders_for_one_split_are_refused(tmp_path: Path) -> None:
    for name in ("train", "val", "valid"):
        classes(tmp_path / name, {"a": 10, "b": 10})
    with pytest.raises(DataError, match="has both val and valid"):
        custom.load(tmp_path)


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    classes(tmp_path, {"bus": 10, "train": 10, "test": 10})
    with pytest.warns(UserWarning, match="a class named 'train'"):
        assert custom.load(tmp_path).classes == ("bus", "test", "train")


def test_class_names_that_look_the_same_are_refused(tmp_path: Path) -> None:
    classes(tmp_path / "train", {"caf\u00e9": 10, "b": 10})
    classes(tmp_path / "test", {"cafe\u0301": 1, "b": 1})
    with pytest.raises(DataError, match=r"two spellings .*'cafe\\u0301' and 'caf\\xe9'"):
        custom.load(tmp_path)


def test_loose_images_and_odd_folders_are_warned_of(tmp_path: Path) -> None:
    classes(tmp_path / "train", {"a": 10, "b": 10})
    picture(tmp_path / "train" / "loose.png")
    classes(tmp_path, {"more": 1})
    with pytest.warns(UserWarning, match="ignored") as found:
        custom.load(tmp_path)
    assert any("ignored 1 folder beside train/: more" in text for text in messages_of(list(found)))
    assert any("outside of class folders: loose.png" in text for text in messages_of(list(found)))


def test_a_class_folder_without_images_is_warned_of(tmp_path: Path) -> None:
    classes(tmp_path, {"a": 10, "b": 10})
    (tmp_path / "fox").mkdir()
    with pytest.warns(UserWarning, match="1 class folder without images: fox"):
        assert custom.load(tmp_path).classes == ("a", "b")


def test_images_in_formats_that_are_not_read_are_counted_in_a_warning(tmp_path: Path) -> None:
    classes(tmp_path, {"a": 10, "b": 10})
    for name in ("a/IMG_1.HEIC", "b/deep/IMG_2.heic", "b/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("not read")
    with pytest.warns(UserWarning, match="ignored 2 images in formats") as found:
        assert len(custom.load(tmp_path).train) == 20
    text = "".join(messages_of(list(found)))
    assert "a/IMG_1.HEIC, b/IMG_2.heic" in text
    assert "notes" not in text


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda root: None, "has no image in class folders"),
        (lambda root: picture(root / "a.png"), "has no image in class folders"),
        (lambda root: classes(root, {"only": 12}), "a single class, 'only'"),
        (lambda root: classes(root / "test", {"a": 1, "b": 1}), "test but no folder train/"),
        (
            lambda root: classes(root / "1pct" / "align", {"0": 1}),
            "a benchmark in its public layout",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:.*ignored")
def test_folders_that_cannot_be_used(tmp_path: Path, make: Any, message: str) -> None:
    make(tmp_path)
    with pytest.raises(DataError, match=message):
        custom.load(tmp_path)


def test_a_class_that_is_only_in_another_split(tmp_path: Path) -> None:
    classes(tmp_path / "train", {"a": 10, "b": 10})
    classes(tmp_path / "test", {"a": 1, "c": 1})
    with pytest.raises(DataError, match="no image to train on for 'c', which other splits have"):
        custom.load(tmp_path)


def test_no_such_folder_and_no_such_kind_of_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no folder"):
        custom.load(tmp_path / "none")
    picture(tmp_path / "a.png")
    with pytest.raises(DataError, match=r"a\.png is neither a folder of images nor a table"):
        custom.load(tmp_path / "a.png")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may list everything")
def test_a_folder_that_cannot_be_listed(tmp_path: Path) -> None:
    classes(tmp_path, {"a": 1, "b": 1})
    (tmp_path / "a").chmod(0)
    with pytest.raises(DataError, match="cannot list the folder"):
        custom.load(tmp_path)
    (tmp_path / "a").chmod(0o700)


def test_few_images_and_imbalance_are_warned_of(tmp_path: Path) -> None:
    root = classes(tmp_path / "few", {"a": 12, "b": 3})
    with pytest.warns(
        UserWarning, match=r"fewer than 10 images to train on for 'b' \(a: 12, b: 3\)"
    ):
        assert len(custom.load(root).train) == 15
    rows = [ListedImage(Path("x"), "a")] * 300 + [ListedImage(Path("y"), "b")] * 12
    with pytest.warns(UserWarning, match=r"over 20 times .*\(a: 300, b: 12\)"):
        listing.check(Listing("set", tmp_path, rows))


@pytest.mark.skipif(os.name != "posix", reason="names here are always text")
def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    classes(tmp_path, {"a": 10, "b": 10})
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/a/\xff.png"))
    picture(odd)
    splits = custom.load(tmp_path)
    assert splits.train.names is not None
    assert "a/\ufffd.png" in splits.train.names
    "".join(splits.train.names).encode()  # they are valid UTF-8


def test_folders_whose_names_differ_only_in_odd_bytes_are_refused(tmp_path: Path) -> None:
    for name in (b"caf\xe8", b"caf\xe9", b"b"):
        classes(Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)), {".": 10})
    with pytest.raises(DataError, match="two folders 'caf\ufffd'"):
        custom.load(tmp_path)


def test_classes_in_names_that_are_not_utf8(tmp_path: Path) -> None:
    for n in range(10):
        picture(Path(os.fsdecode(os.fsencode(tmp_path) + b"/%d_caf\xe9.png" % n)))
        picture(tmp_path / f"{n}_b.png")
    splits = custom.load(tmp_path, groups=GroupSource(pattern="*_{class}.png"))
    assert splits.classes == ("b", "caf\ufffd")
    assert splits.digest


def test_listing_many_small_files_opens_none(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for n in range(3000):
        (tmp_path / "a" / f"{n}.jpg").touch()
    assert len(class_folders.list_images(tmp_path).rows) == 3000  # empty files: nothing was opened


# Sizes


@pytest.mark.parametrize(
    ("sizes", "limit", "expected"),
    [
        ([(8, 6)] * 3, 96, (6, 8)),  # (width, height) becomes (height, width)
        ([(200, 100)] * 3, 96, (48, 96)),
        ([(20, 10), (30, 40), (50, 10)], 96, (40, 40)),  # the median of the longer sides, a square
        ([(200, 10), (300, 40)], 96, (96, 96)),
    ],
)
def test_the_common_size(
    tmp_path: Path, sizes: list[tuple[int, int]], limit: int, expected: tuple[int, int]
) -> None:
    paths = [picture(tmp_path / f"{n}.png", size=size) for n, size in enumerate(sizes)]
    assert images.common_size([*paths, tmp_path / "missing.png"], limit) == expected


def test_without_a_readable_image_the_limit_is_the_size(tmp_path: Path) -> None:
    assert images.common_size([tmp_path / "none.png"], 96) == (96, 96)


def test_a_folder_relative_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        classes(tmp_path / name / "photos", {"a": 10, "b": 10})
        monkeypatch.chdir(tmp_path / name)
        assert (
            custom.load("photos").train.names == custom.load(tmp_path / name / "photos").train.names
        )


# Bad images


def with_bad_files(root: Path, bad: int, good: int = 300) -> Path:
    half = good // 2
    classes(root, {"a": half, "b": good - half})
    for n in range(bad):
        (root / "a" / f"bad{n}.png").write_bytes(b"" if n % 2 else b"not an image")
    return root


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_few_bad_images_are_skipped_and_listed(
    tmp_path: Path, in_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not in_memory:
        monkeypatch.setattr(images, "free_memory", lambda: 1000)
        monkeypatch.setattr(images, "CHUNK", 64)
    root = with_bad_files(tmp_path / "photos", 3)
    with pytest.warns(
        UserWarning, match=r"3 of 303 images \(1\.0 %\) .* skipped: a/bad0\.png"
    ) as found:
        splits = custom.load(root)
    assert len(found) == 1
    assert isinstance(splits.train, Split if in_memory else Files)
    assert len(splits.train) == 300
    assert sorted(splits.skipped) == ["a/bad0.png", "a/bad1.png", "a/bad2.png"]
    image = np.asarray(Image.open(root / "b" / "149.png")).transpose(2, 0, 1)
    assert np.array_equal(splits.train.take(torch.tensor([299]))[0].numpy(), image)


@pytest.mark.filterwarnings("ignore:.*list an image again")
def test_a_bad_image_that_is_listed_with_two_spellings_is_skipped_twice(tmp_path: Path) -> None:
    """Otherwise one of them would be a black image."""
    root = with_bad_files(tmp_path / "photos", 1)
    rows = [f"{path.relative_to(root)},{path.parent.name}" for path in sorted(root.rglob("*.png"))]
    table = root / "table.csv"
    table.write_text("\n".join(["path,label", "a/../a/bad0.png,a", *rows]))
    with pytest.warns(UserWarning, match=r"2 of 302 images"):
        splits = custom.load(table)
    assert len(splits.train) == 300


def test_more_than_one_unreadable_image_in_a_hundred_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        custom.load(with_bad_files(tmp_path / "photos", 4))
    for words in ("4 of 304 images (1.3 %)", "photos", "more than 1 %: a/bad0.png ("):
        assert words in str(error.value)


def test_a_class_without_readable_images_is_an_error(tmp_path: Path) -> None:
    classes(tmp_path, {"a": 150, "b": 150})
    for path in (tmp_path / "c" / "x.png", tmp_path / "c" / "y.png"):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(DataError, match="no image of 'c' to train on can be read"):
            custom.load(tmp_path)


def test_copies_across_splits_are_counted_in_a_warning(tmp_path: Path) -> None:
    classes(tmp_path / "train", {"a": 10, "b": 10})
    classes(tmp_path / "test", {"a": 5, "b": 5}, offset=50)
    for n in range(3):
        source = tmp_path / "train" / "a" / f"00{n}.png"
        (tmp_path / "test" / "a" / f"copy{n}.png").write_bytes(source.read_bytes())
    with pytest.warns(UserWarning, match=r"3 images of the test split are in the train split too"):
        custom.load(tmp_path)


# Tables


def written(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def rows_of(root: Path, count: int = 24) -> list[str]:
    """Return the lines of a table with two classes, three splits and two groups."""
    lines = []
    for n in range(count):
        picture(root / "images" / f"{n}.png", n)
        part = ("train", "valid", "test", "train")[n % 4]
        lines.append(
            f"images/{n}.png,{'cat' if n % 2 else 'dog'},{part},{'in' if n % 8 < 4 else 'out'}"
        )
    return lines


@pytest.mark.filterwarnings("ignore:.*fewer than 10")
def test_a_table(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", ["path,label,split,group", *rows_of(tmp_path)])
    splits = custom.load(path)
    assert splits.classes == ("cat", "dog")
    assert splits.bias_classes == ("in", "out")
    assert {part: len(split) for part, split in splits.parts().items()} == {
        "train": 12,
        "valid": 6,
        "test": 6,
    }
    assert splits.bias["train"].tolist() == [0, 0, 1, 1] * 3
    assert splits.train.names is not None
    assert splits.train.names[1] == "images/3.png"


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.filterwarnings("ignore:.*fewer than 10")
def test_separators_and_a_byte_order_mark(tmp_path: Path, mark: str) -> None:
    lines = ["path,label,split,group", *rows_of(tmp_path)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines).replace(",", mark), encoding="utf-8-sig")
    assert len(custom.load(path).train) == 12


@pytest.mark.filterwarnings("ignore:.*fewer than 10")
def test_labels_as_numbers_and_no_splits(tmp_path: Path) -> None:
    for n in range(4):
        picture(tmp_path / f"{n}.png", n)
    lines = ["Label , Path", "10,0.png", "2,1.png", "2,2.png", "10,3.png"]
    splits = custom.load(written(tmp_path / "t.csv", lines))
    assert splits.classes == ("2", "10")
    assert splits.train.targets.tolist() == [1, 0, 0, 1]
    assert not splits.bias


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "has no column path and no column label.* found: nothing"),
        (["file,label", "a,b"], "has no column path.* found: file, label"),
        (["path,label"], "has a header but no row"),
        (["path,label", "a.png,x", ",x"], r"t\.csv, row 2: the path is empty"),
        (["path,label", "a.png,"], r"t\.csv, row 1: the label is empty"),
        (["path,label,split", "a.png,x,later"], "row 1: the split is 'later'"),
        (["path,label,group", "a.png,x,g", "b.png,y,"], "row 2: no group, though other images"),
    ],
)
def test_tables_that_cannot_be_used(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        custom.load(written(tmp_path / "t.csv", lines))


def test_a_table_that_is_not_text_or_missing(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"path,label\n\xff\xfe,x\n")
    with pytest.raises(DataError, match="cannot be read as text in UTF-8"):
        custom.load(tmp_path / "t.csv")
    with pytest.raises(DataError, match="there is no table"):
        custom.load(tmp_path / "none.csv")


def test_missing_files_count_as_unreadable_images(tmp_path: Path) -> None:
    lines = ["path,label"]
    for n in range(200):
        picture(tmp_path / f"{n}.png", n)
        lines.append(f"{n}.png,{n % 2}")
    path = written(tmp_path / "t.csv", [*lines, "gone.png,1"])
    with pytest.warns(UserWarning, match=r"1 of 201 images .* gone\.png \(it is missing\)"):
        assert len(custom.load(path).train) == 200
    written(path, [*lines, "gone.png,1", "gone2.png,1", "gone3.png,1"])
    with pytest.raises(DataError, match="3 of 203 images"):
        custom.load(path)


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match="pip install pyarrow"):
        custom.load(tmp_path / "t.parquet")


class Arrow:
    """A fake pyarrow table with the methods that are used."""

    def __init__(self, columns: dict[str, list[Any]]):
        self.columns = columns
        self.column_names = list(columns)

    def rename_columns(self, names: list[str]) -> Arrow:
        return Arrow(dict(zip(names, self.columns.values(), strict=True)))

    def to_pylist(self) -> list[dict[str, Any]]:
        return [
            dict(zip(self.columns, row, strict=True))
            for row in zip(*self.columns.values(), strict=True)
        ]


def test_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.parquet").touch()
    arrow = Arrow({"Path": [b"a.png", "b.png"], "Label": [1.0, 0.0], "split": [None, "test"]})
    module = types.ModuleType("pyarrow.parquet")
    module.read_table = lambda path: arrow  # type: ignore[attr-defined]
    package = types.ModuleType("pyarrow")
    package.parquet = module  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyarrow", package)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", module)
    found = table.list_images(tmp_path / "t.parquet").rows
    assert [row.label for row in found] == ["1", "0"]
    assert [row.part for row in found] == ["train", "test"]
    assert [row.path.name for row in found] == ["a.png", "b.png"]

    def broken(path: Path) -> Arrow:
        raise ValueError("magic bytes")

    module.read_table = broken  # type: ignore[attr-defined]
    with pytest.raises(DataError, match=r"t\.parquet cannot be read as parquet \(magic bytes\)"):
        table.list_images(tmp_path / "t.parquet")


# For an existing model


def test_known_classes_and_size(tmp_path: Path) -> None:
    root = classes(tmp_path, {"b": 2})
    splits = custom.load(root, size=(4, 5), classes=("a", "b", "c"))
    assert splits.train.targets.tolist() == [1, 1]
    assert splits.train.shape == (3, 4, 5)
    with pytest.raises(DataError, match="'b' is not one of the model's classes, 'x', 'y'"):
        custom.load(root, classes=("x", "y"))


# Conflicting images


def test_a_group_that_is_rare_in_its_class_is_conflicting() -> None:
    targets = torch.tensor([0] * 10 + [1] * 10)
    group = torch.tensor([0] * 9 + [1] + [1] * 8 + [0] * 2)
    pixels = torch.zeros(20, 1, 2, 2, dtype=torch.uint8)
    test = Split(pixels[:4], torch.tensor([0, 0, 1, 1]))
    splits = Splits(
        train=Split(pixels, targets),
        test=test,
        classes=("a", "b"),
        bias={"train": group, "test": torch.tensor([0, 1, 0, 1])},
        conflict_when="rare",
    )
    conflicting = splits.conflicting("train")
    assert conflicting is not None
    assert conflicting.nonzero().flatten().tolist() == [9, 18, 19]
    on_test = splits.conflicting("test")
    assert on_test is not None
    assert on_test.tolist() == [False, True, True, False]
    blind = Splits(
        train=splits.train,
        test=test,
        classes=("a", "b"),
        bias={"test": splits.bias["test"]},
        conflict_when="rare",
    )
    assert blind.conflicting("test") is None
    assert blind.conflicting("train") is None
