"""Splits: which inputs are refused, and which changes alter the digests."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from unspur import data
from unspur.data.splits import Split, Splits
from unspur.errors import DataError
from unspur.store.hashing import digest


def split(n: int = 4, *, size: int = 2, high: int = 2) -> Split:
    images = torch.arange(n * 3 * size * size).remainder(256).to(torch.uint8)
    return Split(images.reshape(n, 3, size, size), torch.arange(n) % high)


def whole(first: int = 0) -> Splits:
    """Return two classes in three splits, with bias labels for all."""
    parts = {name: split(4 + n) for n, name in enumerate(("train", "valid", "test"))}
    for part in parts.values():
        part.images.add_(first)
    bias = {name: part.targets.flip(0) for name, part in parts.items()}
    return Splits(**parts, classes=("stands", "lies"), bias=bias)


# -- one split ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("images", "description"),
    [
        (torch.zeros(4, 2, 2, dtype=torch.uint8), r"\(4, 2, 2\)"),
        (torch.zeros(4, 3, 2, 2, dtype=torch.float64), "float64"),
        (torch.zeros(4, 3, 2, 2, dtype=torch.int64), "int64"),
    ],
)
def test_images_of_the_wrong_kind(images: torch.Tensor, description: str) -> None:
    with pytest.raises(DataError, match=rf"images must be \(N, C, H, W\) in uint8.*{description}"):
        Split(images, torch.zeros(4, dtype=torch.int64))


@pytest.mark.parametrize(
    ("targets", "description"),
    [
        (torch.zeros(3, dtype=torch.int64), r"\(3,\)"),
        (torch.zeros(4, 1, dtype=torch.int64), r"\(4, 1\)"),
        (torch.zeros(4, dtype=torch.int32), "int32"),
        (torch.zeros(4), "float32"),
    ],
)
def test_targets_of_the_wrong_kind(targets: torch.Tensor, description: str) -> None:
    with pytest.raises(DataError, match=f"4 images need as many int64 targets.*{description}"):
        Split(torch.zeros(4, 3, 2, 2), targets)


def test_length_is_the_number_of_samples() -> None:
    assert len(split(5)) == 5


def test_equal_content_has_an_equal_digest() -> None:
    a, b = split(), split()
    assert a.digest == b.digest
    transposed = a.images.transpose(2, 3).contiguous().transpose(2, 3)  # other strides, same pixels
    assert Split(transposed, a.targets).digest == a.digest
    assert dataclasses.replace(a, names=("a", "b", "c", "d")).digest == a.digest


def test_digest_notices_pixels_labels_order_and_kind() -> None:
    a = split()
    pixel, label = a.images.clone(), a.targets.clone()
    pixel[3, 2, 1, 1] += 1
    label[0] = 1
    swapped = torch.tensor([1, 0, 2, 3])
    others = [
        Split(pixel, a.targets),
        Split(a.images, label),
        Split(a.images[swapped], a.targets[swapped]),
        Split(a.images.reshape(4, 3, 4, 1), a.targets),
        Split(a.images.float(), a.targets),
        Split(a.images[:3], a.targets[:3]),
    ]
    assert len({a.digest, *(other.digest for other in others)}) == 1 + len(others)


def test_digest_of_text_and_tensors() -> None:
    assert digest("a") != digest("b")
    assert digest("a", torch.tensor([1])) != digest("a", torch.tensor([2]))
    assert digest("a", torch.tensor([True, False])) != digest("a", torch.tensor([False, True]))


# -- a data set ---------------------------------------------------------------------------------------


def test_empty_training_split() -> None:
    with pytest.raises(DataError, match="the training split is empty"):
        Splits(split(0), classes=("a",))


@pytest.mark.parametrize("part", ["train", "valid", "test"])
@pytest.mark.parametrize("label", [-1, 2])
def test_label_out_of_range(part: str, label: int) -> None:
    parts = {name: split() for name in ("train", "valid", "test")}
    parts[part].targets[1] = label
    with pytest.raises(DataError, match=rf"the {part} split has a label outside 0\.\.1: {label}\."):
        Splits(**parts, classes=("a", "b"))


@pytest.mark.parametrize("part", ["valid", "test"])
def test_images_of_two_shapes(part: str) -> None:
    with pytest.raises(
        DataError, match=rf"{part} images are \(3, 4, 4\), training images \(3, 2, 2\)"
    ):
        Splits(split(), classes=("a", "b"), **{part: split(size=4)})


def test_too_few_bias_labels() -> None:
    with pytest.raises(DataError, match="4 valid images but 3 bias labels"):
        Splits(
            split(),
            valid=split(),
            classes=("a", "b"),
            bias={"valid": torch.zeros(3, dtype=torch.int64)},
        )


@pytest.mark.parametrize(
    "labels", [torch.tensor([0, 1, -1, 0]), torch.tensor([0.0, 1.0, 0.5, 0.0])]
)
def test_bias_labels_that_are_not_class_numbers(labels: torch.Tensor) -> None:
    with pytest.raises(DataError, match="bias label"):
        Splits(split(), classes=("a", "b"), bias={"train": labels})


def test_bias_labels_of_a_missing_split() -> None:
    with pytest.raises(DataError, match="tets"):
        Splits(split(), test=split(), classes=("a", "b"), bias={"tets": torch.zeros(4).long()})


def test_parts_are_the_splits_with_images() -> None:
    some = Splits(split(), classes=("a", "b"), valid=split(0), test=split(2))
    assert list(some.parts()) == ["train", "test"]


def test_conflicting_samples() -> None:
    bias = {"train": torch.tensor([0, 0, 1, 1])}  # targets are 0, 1, 0, 1
    base = Splits(split(), classes=("a", "b"), bias=bias, test=split())
    assert base.conflicting("train").tolist() == [False, True, True, False]
    turned = dataclasses.replace(base, conflict_when="equal")
    assert turned.conflicting("train").tolist() == [True, False, False, True]
    assert base.conflicting("test") is None


def test_the_digest_ignores_bias_labels_and_test_split() -> None:
    base = whole()
    other_bias = {name: 1 - labels for name, labels in base.bias.items()}
    other_test = whole(1).test
    for changed in (
        dataclasses.replace(base, bias=other_bias),
        dataclasses.replace(base, bias={}),
        dataclasses.replace(base, test=other_test),
        dataclasses.replace(base, conflict_when="equal"),
        dataclasses.replace(base, bias={"test": base.bias["test"]}),
    ):
        assert changed.digest == base.digest
        assert changed.truth_digest != base.truth_digest


def test_the_digest_depends_on_what_training_uses() -> None:
    base, other = whole(), whole(1)
    for changed in (
        dataclasses.replace(base, train=other.train),
        dataclasses.replace(base, valid=other.valid),
        dataclasses.replace(base, valid=None, bias={}),
        dataclasses.replace(base, classes=("stands", "lies", "leans")),
    ):
        assert changed.digest != base.digest
    assert dataclasses.replace(base, train=other.train).truth_digest == base.truth_digest


# -- data sets by name --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "fashion"}, "there is no data set 'fashion'. Choose one of cmnist, cifar10c"),
        ({"name": "demo", "ratio": "3pct"}, "the demo has no ratio '3pct'. Choose one of 1pct"),
        ({"name": "folder"}, "give the folder in the public layout with --data-root"),
    ],
)
def test_unknown_data(arguments: dict[str, str], message: str) -> None:
    with pytest.raises(DataError) as error:
        data.load(**arguments)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(("ratio", "count"), [("1pct", 90), ("2pct", 180), ("5pct", 450)])
def test_the_demo_set(ratio: str, count: int) -> None:
    demo = data.load("demo", ratio=ratio)
    assert {name: len(part) for name, part in demo.parts().items()} == {
        "train": 9000,
        "valid": 1000,
        "test": 2000,
    }
    assert int(demo.conflicting("train").sum()) == count
