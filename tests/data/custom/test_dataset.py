"""Reading map-style datasets as splits, and the messages for unusable ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from unspur.data.custom.dataset import collect, pixels
from unspur.errors import DataError


class Items(Dataset[Any]):
    """A dataset of the given items."""

    def __init__(self, *items: Any):
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: int) -> Any:
        return self.items[i]


def grey(value: int = 7, size: tuple[int, int] = (5, 4)) -> Image.Image:
    return Image.new("L", size, value)


RED = torch.tensor([200, 0, 0], dtype=torch.uint8)[:, None, None].expand(3, 4, 5)


def test_uint8_tensors_are_not_changed() -> None:
    images = torch.randint(0, 256, (6, 1, 4, 5), dtype=torch.uint8)
    split = collect(TensorDataset(images, torch.arange(6)))
    assert split.images.dtype == torch.uint8
    assert torch.equal(split.images, images)
    assert split.targets.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_floating_point_becomes_float32(kind: torch.dtype) -> None:
    images = torch.rand(3, 3, 4, 5).to(kind)
    split = collect(TensorDataset(images, torch.zeros(3, dtype=torch.int64)))
    assert split.images.dtype == torch.float32
    assert torch.equal(split.images, images.float())


def test_pil_images_become_rgb_bytes() -> None:
    drawn = Image.fromarray(RED.permute(1, 2, 0).contiguous().numpy())
    split = collect(Items((drawn, 0), (grey(), 1)))
    assert split.images.shape == (2, 3, 4, 5)
    assert torch.equal(split.images[0], RED)
    assert split.images[1].unique().tolist() == [7]


@pytest.mark.parametrize("mode", ["P", "RGBA", "LA", "1", "CMYK"])
def test_other_modes_become_rgb(mode: str) -> None:
    white = Image.new("RGB", (5, 4), (255, 255, 255)).convert(mode)
    assert pixels(white).shape == (3, 4, 5)
    assert pixels(white).unique().tolist() == [255]


@pytest.mark.parametrize("label", [3, 3.0, True, np.int64(3), torch.tensor(3), torch.tensor(3.0)])
def test_whole_numbers_of_any_kind_are_labels(label: Any) -> None:
    assert collect(Items((RED, label))).targets.tolist() == [int(label)]


def test_further_elements_of_an_item_are_ignored() -> None:
    assert collect(Items((RED, 1, "a name"), [RED, 0, "another"])).targets.tolist() == [1, 0]


def test_every_item_is_read_once() -> None:
    seen: list[int] = []

    class Counting(Items):
        def __getitem__(self, i: int) -> Any:
            seen.append(i)
            return super().__getitem__(i)

    collect(Counting((RED, 0), (RED, 1), (RED, 0)))
    assert seen == [0, 1, 2]


def test_empty() -> None:
    with pytest.raises(DataError, match=r"^the valid dataset is empty\.$"):
        collect(Items(), name="valid")


@pytest.mark.parametrize("item", [RED, {"image": RED, "label": 0}, (RED,)])
def test_an_item_that_is_not_a_pair_is_refused(item: Any) -> None:
    with pytest.raises(
        DataError, match=rf"^test\[1\] is {type(item).__name__}; it must be \(image, label\)"
    ):
        collect(Items((RED, 0), item), name="test")


@pytest.mark.parametrize(
    ("image", "what"),
    [
        (torch.zeros(4, 5), r"\(4, 5\) in torch.float32"),
        (torch.zeros(3, 4, 5, dtype=torch.int64), r"\(3, 4, 5\) in torch.int64"),
        (np.zeros((4, 5, 3), np.uint8), "ndarray"),
        ("photo.png", "str"),
        (None, "NoneType"),
    ],
)
def test_image_of_the_wrong_kind(image: Any, what: str) -> None:
    with pytest.raises(DataError, match=rf"^train\[0\]: the image is {what}.*; give a PIL image"):
        collect(Items((image, 0)))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_image_that_is_not_finite(value: float) -> None:
    bad = torch.zeros(3, 4, 5)
    bad[1, 2, 3] = value
    with pytest.raises(DataError, match=r"^train\[1\]: the image has values that are not finite"):
        collect(Items((torch.zeros(3, 4, 5), 0), (bad, 0)))


@pytest.mark.parametrize(
    "label",
    [
        "cat",
        "3",
        None,
        1.5,
        -1,
        float("nan"),
        float("inf"),
        torch.tensor([0, 1]),
        np.array([1.0, 0.0]),
    ],
    ids=repr,
)
def test_label_that_is_no_class_number(label: Any) -> None:
    with pytest.raises(DataError, match=r"^train\[0\]: the label .* is not a whole number"):
        collect(Items((RED, label)))


@pytest.mark.parametrize(
    ("second", "what"),
    [(grey(size=(6, 4)), r"\(3, 4, 6\) in torch.uint8"), (torch.zeros(3, 4, 5), "torch.float32")],
)
def test_images_of_two_kinds(second: Any, what: str) -> None:
    with pytest.raises(
        DataError, match=rf"^train\[1\] is .*{what}, train\[0\] \(3, 4, 5\) in torch.uint8"
    ):
        collect(Items((RED, 0), (second, 0)))


def test_dataset_without_a_length() -> None:
    class Endless(IterableDataset[tuple[Tensor, int]]):
        def __iter__(self) -> Any:
            yield RED, 0

    with pytest.raises(DataError, match="train"):
        collect(Endless())
