"""Coloured MNIST: counts, colours, pixels, and the effect of the seed."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from toys import real_mnist
from unspur.data.benchmarks import cmnist, embedded
from unspur.data.benchmarks.mnist import Digits
from unspur.data.splits import Splits
from unspur.errors import DataError

# Reference: published counts of conflicting training samples, and 5 000 / 55 000 of them rounded.
TRAIN_CONFLICTS = {"0.5pct": 249, "1pct": 491, "2pct": 986, "5pct": 2449}
VALID_CONFLICTS = {"0.5pct": 23, "1pct": 45, "2pct": 90, "5pct": 223}


def numbered_digits(train: int, test: int) -> Digits:
    """Return artificial digits of 16 white or dark pixels, which encode their numbers in binary."""

    def part(count: int) -> tuple[Tensor, Tensor]:
        numbers = torch.arange(count)
        bits = numbers[:, None] >> torch.arange(16) & 1
        return (bits * 255).to(torch.uint8)[:, None], numbers * 7 % 10

    return Digits(*part(train), *part(test))


def numbers(images: Tensor) -> list[int]:
    """Return the numbers that the pixels encode."""
    bits = (images.amax(1)[:, 0] > 0).long()
    return (bits << torch.arange(16)).sum(1).tolist()


@pytest.fixture(scope="module")
def stand_ins() -> dict[str, Splits]:
    digits = numbered_digits(60_000, 10_000)
    return {ratio: cmnist.make(digits, ratio) for ratio in get_args(cmnist.Ratio)}


@pytest.fixture(scope="module")
def small() -> Splits:
    return cmnist.generate(embedded.digits(), conflicting=100, valid=1_000, seed=5, name="small")


def count(splits: Splits, part: str) -> int:
    conflicting = splits.conflicting(part)
    assert conflicting is not None
    return int(conflicting.sum())


def fingerprint(splits: Splits) -> str:
    """A hash of all pixels and colours, in order."""
    sha = hashlib.sha256()
    for name, split in splits.parts().items():
        sha.update(split.images.numpy().tobytes() + splits.bias[name].numpy().tobytes())
    return sha.hexdigest()[:16]


@pytest.mark.parametrize("ratio", TRAIN_CONFLICTS)
def test_published_counts_are_exact(stand_ins: dict[str, Splits], ratio: str) -> None:
    splits = stand_ins[ratio]
    assert {name: len(part) for name, part in splits.parts().items()} == {
        "train": 55_000,
        "valid": 5_000,
        "test": 10_000,
    }
    assert count(splits, "train") == TRAIN_CONFLICTS[ratio]
    assert count(splits, "valid") == VALID_CONFLICTS[ratio]
    assert splits.name == f"cmnist/{ratio}"


def test_group_table(stand_ins: dict[str, Splits]) -> None:
    """Conflicting samples have the nine other colours, uniformly at random."""
    splits = stand_ins["5pct"]
    table = torch.zeros(10, 10, dtype=torch.long)
    for target, colour in zip(splits.train.targets, splits.bias["train"], strict=True):
        table[target, colour] += 1
    off_diagonal = table[~torch.eye(10, dtype=torch.bool)]
    assert int(table.sum()) == 55_000
    assert int(off_diagonal.sum()) == 2449
    assert int(off_diagonal.min()) > 0
    expected = 2449 / 90  # chi-squared with 89 degrees of freedom: 131 is its 99.8 % quantile
    assert float(((off_diagonal - expected) ** 2 / expected).sum()) < 131


def test_test_colours_are_uniform(stand_ins: dict[str, Splits]) -> None:
    splits = stand_ins["1pct"]
    assert all(900 < number < 1_100 for number in splits.bias["test"].bincount().tolist())
    assert 8_900 < count(splits, "test") < 9_100


def test_the_ratios_of_one_seed_are_nested(stand_ins: dict[str, Splits]) -> None:
    """All ratios have the same digits; what conflicts at 0.5 % also conflicts at 5 %, with equal pixels."""
    ordered = [stand_ins[ratio] for ratio in TRAIN_CONFLICTS]
    for low, high in pairwise(ordered):
        for part, split in low.parts().items():
            assert numbers(split.images) == numbers(high.parts()[part].images)
        assert low.test is not None
        assert high.test is not None
        assert torch.equal(low.test.images, high.test.images)
        conflicting = low.conflicting("train")
        assert conflicting is not None
        assert torch.equal(low.train.images[conflicting], high.train.images[conflicting])
        assert torch.equal(low.bias["train"][conflicting], high.bias["train"][conflicting])


def test_every_digit_is_in_one_split_with_its_own_label(stand_ins: dict[str, Splits]) -> None:
    splits = stand_ins["1pct"]
    assert splits.valid is not None
    train, valid = numbers(splits.train.images), numbers(splits.valid.images)
    assert sorted(train + valid) == list(range(60_000))
    assert splits.train.targets.tolist() == [number * 7 % 10 for number in train]
    assert splits.valid.targets.tolist() == [number * 7 % 10 for number in valid]
    assert 300 < sum(number < 5_000 for number in valid) < 550  # drawn from everywhere


def slow_image(grey: np.ndarray, tint: np.ndarray) -> np.ndarray:
    """Colour one image pixel by pixel."""
    image = np.zeros((3, *grey.shape), np.uint8)
    for channel in range(3):
        for row, column in np.ndindex(grey.shape):
            value = min(max(float(tint[channel]), 0.0), 1.0) * float(grey[row, column])
            image[channel, row, column] = int(value)
    return image


def test_pixels_against_a_slow_oracle() -> None:
    grey = embedded.digits().test_images[::100].numpy()
    colours = np.arange(20) % 10
    painted = cmnist.paint(grey, colours, np.random.default_rng(9))
    noise = np.random.default_rng(9).normal(0.0, 0.005, (20, 3))
    anchors = np.array(list(cmnist.COLOURS.values()))
    for index in range(20):
        tint = anchors[colours[index]] + noise[index]
        assert np.array_equal(painted[index], slow_image(grey[index], tint))


def test_noise_is_clamped_not_wrapped() -> None:
    """Yellow has 0.99 red: over many draws the noise passes 1 and must stay at white."""
    white = np.full((3_000, 1, 1), 255, np.uint8)
    red = cmnist.paint(white, np.ones(3_000, np.int64), np.random.default_rng(0))[:, 0]
    assert red.max() == 255
    assert red.min() > 245


def test_real_digits_have_the_colour_their_bias_label_says(small: Splits) -> None:
    anchors = torch.tensor(list(cmnist.COLOURS.values()))
    for part, split in small.parts().items():
        brightest = split.images.flatten(2).amax(2) / 255.0
        nearest = torch.cdist(brightest, anchors).argmin(1)
        assert torch.equal(nearest, small.bias[part])


def test_the_anchor_colours_in_eight_bits() -> None:
    eight_bits = [tuple(round(channel * 255) for channel in rgb) for rgb in cmnist.COLOURS.values()]
    assert eight_bits == [
        *((251, 80, 43), (253, 233, 90), (172, 118, 148), (200, 212, 153), (22, 198, 250)),
        *((82, 245, 114), (6, 60, 193), (142, 26, 194), (53, 100, 5), (213, 52, 68)),
    ]


def test_background_is_black_and_the_shape_is_the_digits(small: Splits) -> None:
    digits = embedded.digits()
    assert small.test is not None
    assert small.test.images.shape == (2_000, 3, 28, 28)
    assert not small.test.images.amax(1)[digits.test_images == 0].any()
    assert torch.equal(small.test.targets, digits.test_labels)


def test_generate_with_other_sizes(small: Splits) -> None:
    assert [len(part) for part in small.parts().values()] == [9_000, 1_000, 2_000]
    assert count(small, "train") == 100
    assert count(small, "valid") == 11  # 11.1
    assert small.classes == tuple("0123456789")
    assert small.bias_classes == tuple(cmnist.COLOURS)
    assert len(small.bias_classes) == 10


def test_validation_conflicts_round_half_up() -> None:
    digits = numbered_digits(400, 10)
    counts = {
        conflicting: count(cmnist.generate(digits, conflicting=conflicting, valid=200), "valid")
        for conflicting in (0, 1, 200)
    }
    assert counts == {0: 0, 1: 1, 200: 200}
    splits = cmnist.generate(numbered_digits(300, 10), conflicting=1, valid=100)
    assert count(splits, "valid") == 1  # a half
    splits = cmnist.generate(numbered_digits(301, 10), conflicting=1, valid=100)
    assert count(splits, "valid") == 0


def test_another_seed_changes_images_and_colours() -> None:
    digits = numbered_digits(2_000, 500)
    first, again, other = (
        cmnist.generate(digits, conflicting=60, valid=200, seed=seed) for seed in (1, 1, 2)
    )
    assert first.digest == again.digest
    assert first.truth_digest == again.truth_digest
    assert first.valid is not None
    assert other.valid is not None
    assert numbers(first.valid.images) != numbers(other.valid.images)
    assert not torch.equal(first.bias["test"], other.bias["test"])


def test_global_random_streams_are_not_used() -> None:
    digits = numbered_digits(500, 50)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = cmnist.generate(digits, conflicting=10, valid=100)
    assert torch.equal(torch.get_rng_state(), before)
    np.random.seed(4)
    assert cmnist.generate(digits, conflicting=10, valid=100).digest == first.digest


def test_the_data_set_of_a_seed_never_changes(small: Splits) -> None:
    """A change here would mean that our published numbers belong to other data."""
    assert fingerprint(small) == "59df83403853a371"


def test_unknown_ratio() -> None:
    with pytest.raises(DataError, match=r"no CMNIST ratio '3pct'.*0\.5pct, 1pct, 2pct, 5pct"):
        cmnist.make(numbered_digits(10, 10), "3pct")  # type: ignore[arg-type]


def test_make_needs_all_of_mnist() -> None:
    with pytest.raises(DataError, match="from 60000 training digits, not 10000"):
        cmnist.make(embedded.digits(), "1pct")


@pytest.mark.parametrize(("conflicting", "valid"), [(91, 10), (5, 0), (0, 100), (-1, 10)])
def test_impossible_counts_are_refused(conflicting: int, valid: int) -> None:
    with pytest.raises(DataError, match=f"take {valid} validation and {conflicting} conflicting"):
        cmnist.generate(numbered_digits(100, 10), conflicting=conflicting, valid=valid)


@pytest.mark.real
def test_the_benchmark_from_the_real_mnist() -> None:
    splits = cmnist.make(real_mnist(), "1pct")
    assert splits.train.images.shape == (55_000, 3, 28, 28)
    assert count(splits, "train") == 491
    assert count(splits, "valid") == 45
    assert fingerprint(splits) == "d0febcd40313ab0c"
