"""The digits that come with the package."""

from __future__ import annotations

import pytest
import torch

from toys import real_mnist
from unspur.data.benchmarks import embedded
from unspur.errors import DataError


def test_sizes_types_and_balance() -> None:
    digits = embedded.digits()
    assert digits.train_images.shape == (10_000, 28, 28)
    assert digits.test_images.shape == (2_000, 28, 28)
    assert digits.train_images.dtype == digits.test_images.dtype == torch.uint8
    assert digits.train_labels.bincount().tolist() == [1_000] * 10
    assert digits.test_labels.bincount().tolist() == [200] * 10


def test_a_nearest_mean_knows_the_digits() -> None:
    """Labels belong to their images: the nearest class mean is right for about four in five."""
    digits = embedded.digits()
    train = digits.train_images.flatten(1) / 255.0
    means = torch.stack([train[digits.train_labels == label].mean(0) for label in range(10)])
    guess = torch.cdist(digits.test_images.flatten(1) / 255.0, means).argmin(1)
    assert 0.75 < (guess == digits.test_labels).float().mean() < 0.9


def test_no_image_occurs_twice() -> None:
    digits = embedded.digits()
    pixels = torch.cat([digits.train_images, digits.test_images]).flatten(1)
    assert len({row.tobytes() for row in pixels.numpy()}) == 12_000


def test_damage_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "SHA256", "0" * 64)
    with pytest.raises(DataError, match=r"mnist12k\.xz has sha256 10bd8c.* Install unspur again"):
        embedded.digits()


@pytest.mark.real
def test_they_are_the_first_of_each_class_of_mnist() -> None:
    full, part = real_mnist(), embedded.digits()
    for label in range(10):
        expected = full.train_images[full.train_labels == label][:1_000]
        assert torch.equal(part.train_images[part.train_labels == label], expected)
        expected = full.test_images[full.test_labels == label][:200]
        assert torch.equal(part.test_images[part.test_labels == label], expected)
