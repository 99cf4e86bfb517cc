"""Datasets of the Hugging Face hub, with a fake of the package `datasets`."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from unspur.data import custom
from unspur.data.custom.labelled import open_labelled
from unspur.errors import DataError

pytestmark = pytest.mark.filterwarnings("ignore:.*fewer than 10 images")


class ClassLabel:
    def __init__(self, names: list[str]):
        self.names = names


class Value:
    pass


FEATURE_IMAGE = type("Image", (), {})


class Rows:
    """A fake dataset with the methods that are used."""

    def __init__(self, images: list[Any], labels: list[Any], label: Any, column: str = "label"):
        self.features = {"image": FEATURE_IMAGE(), column: label, "id": Value()}
        self.columns = {"image": images, column: labels, "id": list(range(len(images)))}

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self.columns[key]
        return {name: values[key] for name, values in self.columns.items()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[i] for i in range(len(self.columns["image"])))


def picture(value: int, mode: str = "RGB") -> Image.Image:
    rng = np.random.default_rng(value)
    return Image.fromarray(rng.integers(0, 256, (10, 12, 3), np.uint8)).convert(mode)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the datasets that the fake package opens, by name."""
    found: dict[str, Any] = {}

    def load(name: str) -> Any:
        if name not in found:
            raise FileNotFoundError("no such set")
        return found[name]

    module = types.ModuleType("datasets")
    module.load_dataset = module.load_from_disk = load  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)
    return found


def test_named_labels_and_splits(opened: dict[str, Any]) -> None:
    label = ClassLabel(["cat", "dog"])
    images = [picture(0), picture(1, "L"), picture(2, "RGBA")]
    opened["pets"] = {
        "train": Rows(images, [1, 0, 1], label),
        "validation": Rows(images[:1], [1], label),
        "extra": Rows([], [], label),
    }
    splits = custom.load("hf:pets")
    assert splits.classes == ("cat", "dog")
    assert splits.train.targets.tolist() == [1, 0, 1]
    assert splits.train.shape == (3, 10, 12)
    assert splits.valid is not None
    assert len(splits.valid) == 1
    smaller = custom.load("hf:pets", size=(10, 12))
    expected = np.asarray(picture(2)).transpose(2, 0, 1)
    assert np.array_equal(smaller.train.take(torch.tensor([2]))[0].numpy(), expected)


def test_plain_labels_and_a_single_set_on_disk(opened: dict[str, Any], tmp_path: Path) -> None:
    opened[str(tmp_path)] = Rows([picture(0), picture(1)], ["b", "a"], Value())
    splits = custom.load(f"hf:{tmp_path}")
    assert splits.classes == ("a", "b")
    assert splits.train.targets.tolist() == [1, 0]
    with pytest.raises(DataError, match="the label 'b' is not one of a, c"):
        custom.load(f"hf:{tmp_path}", classes=("a", "c"))


def test_a_split_without_labels_is_left_out(opened: dict[str, Any]) -> None:
    """A missing label of a column with names is -1, which would be the last class."""
    images = [picture(0), picture(1)]
    for missing, label in ((-1, ClassLabel(["cat", "dog"])), (None, Value())):
        opened["contest"] = {
            "train": Rows(images, [0, 1], label),
            "test": Rows(images, [missing, missing], label),
        }
        with pytest.warns(UserWarning, match="hf:contest: left out test: no labels"):
            splits = custom.load("hf:contest")
        assert splits.test is None
        with pytest.warns(UserWarning, match="hf:contest: left out test: no labels"):
            found = open_labelled("hf:contest", size=(12, 12), classes=splits.classes)
        assert found.part.targets.tolist() == [0, 1]  # of the training split


def test_labels_may_be_negative_numbers(opened: dict[str, Any]) -> None:
    opened["signs"] = Rows([picture(0), picture(1)], [-1, 1], Value())
    splits = custom.load("hf:signs")
    assert splits.classes == ("-1", "1")
    assert splits.train.targets.tolist() == [0, 1]


@pytest.mark.parametrize("part", ["train", "validation"])
def test_some_missing_labels_are_refused(opened: dict[str, Any], part: str) -> None:
    label, images = ClassLabel(["cat", "dog"]), [picture(0), picture(1)]
    opened["holes"] = {"train": Rows(images, [0, 1], label)}
    opened["holes"][part] = Rows(images, [0, -1], label)
    with pytest.raises(DataError, match=r"1 of 2 images of the (train|valid) split have no label"):
        custom.load("hf:holes")


def test_unusable_datasets_are_refused(opened: dict[str, Any]) -> None:
    opened["tests"] = {"test": Rows([picture(0)], [0], ClassLabel(["a"]))}
    opened["odd"] = {"train": Rows([picture(0)], [0], Value(), column="score")}
    opened["bytes"] = {"train": Rows([picture(0), b"raw"], [0, 1], ClassLabel(["a", "b"]))}
    for name, message in (
        ("none", r"hf:none cannot be opened \(no such set\)"),
        ("tests", "has no train split; it has test"),
        ("odd", r"one column of images and one of labels; found: image \(Image\), score \(Value\)"),
        ("bytes", "an image is bytes; decode the image column"),
    ):
        with pytest.raises(DataError, match=message):
            custom.load(f"hf:{name}")


def test_images_of_several_sizes_become_squares_of_their_median_size(
    opened: dict[str, Any],
) -> None:
    images = [picture(0), *(picture(n).resize((20, 10 + n)) for n in range(1, 6))]
    opened["sizes"] = Rows(images, [0, 1] * 3, ClassLabel(["a", "b"]))
    assert custom.load("hf:sizes").train.shape == (3, 20, 20)
    assert custom.load("hf:sizes", limit=15).train.shape == (3, 15, 15)


def test_splits_without_images_or_a_column_of_labels_are_left_out(opened: dict[str, Any]) -> None:
    label, images = ClassLabel(["cat", "dog"]), [picture(0), picture(1)]
    opened["parts"] = {
        "train": Rows(images, [0, 1], label),
        "validation": Rows([], [], label),
        "test": Rows(images, [0, 1], Value(), column="quality"),
    }
    with pytest.warns(UserWarning, match="left out test and valid: no labels"):
        assert list(custom.load("hf:parts").parts()) == ["train"]


def test_every_split_has_its_own_names_of_the_numbers(opened: dict[str, Any]) -> None:
    images = [picture(0), picture(1)]
    opened["named"] = {
        "train": Rows(images, [0, 1], ClassLabel(["cat", "dog"])),
        "test": Rows(images, [0, 1], ClassLabel(["dog", "cat"])),
    }
    test = custom.load("hf:named").test
    assert test is not None
    assert test.targets.tolist() == [1, 0]


class Broken(Rows):
    """Rows of which the second one cannot be decoded."""

    def __getitem__(self, key: Any) -> Any:
        if key == 1:
            raise OSError("image file is truncated")
        return super().__getitem__(key)


@pytest.mark.filterwarnings("ignore:.*left out")
def test_sets_that_cannot_be_trained_on_are_refused(opened: dict[str, Any]) -> None:
    label, images = ClassLabel(["cat", "dog"]), [picture(0), picture(1)]
    good = Rows(images, [0, 1], label)
    opened["one"] = Rows(images, [1, 1], label)
    opened["more"] = {"train": Rows(images, ["a", "b"], Value())}
    opened["more"]["test"] = Rows(images, ["a", "c"], Value())
    opened["two"] = {"train": good, "val": good, "validation": good}
    opened["empty"] = {"train": Rows([], [], label), "test": good}
    opened["none"] = Rows([None, *images], [0, 1, 1], label)
    opened["broken"] = Broken(images, [0, 1], label)
    for name, message in (
        ("one", "a single class"),
        ("more", "no image to train on for 'c'"),
        ("two", "has both val and validation"),
        ("empty", "the train split is empty"),
        ("none", "an image is NoneType"),
        ("broken", "train: image 1 cannot be read: OSError: image file is truncated"),
    ):
        with pytest.raises(DataError, match=message):
            custom.load(f"hf:{name}")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match="pip install datasets"):
        custom.load("hf:pets")
