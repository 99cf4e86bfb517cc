"""Planted shortcuts, data without shortcuts, and wrong labels."""

from __future__ import annotations

import pytest
import torch

from unspur.data.benchmarks import planted
from unspur.data.benchmarks.planted import KINDS, LUMA, Base
from unspur.errors import DataError


@pytest.fixture(scope="module")
def base():
    g = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (400, 3, 32, 32), generator=g, dtype=torch.uint8)
    return Base(images, torch.arange(400) % 10, "noise")


@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_shortcut_has_its_share_of_exceptions_in_every_class(base, kind):
    splits = planted.planted(base, kind, share=0.1, seed=1)
    conflicting = splits.conflicting("train")
    for label in range(10):
        assert int(conflicting[base.labels == label].sum()) == 4
    assert splits.train.images.dtype == torch.uint8
    assert torch.equal(splits.train.targets, base.labels)


@pytest.mark.parametrize("kind", KINDS)
def test_styles_of_a_kind_differ_and_are_repeatable(base, kind):
    images = base.images[:1].expand(10, -1, -1, -1)
    styled = KINDS[kind](images, torch.arange(10), 0)
    assert torch.equal(styled, KINDS[kind](images, torch.arange(10), 0))
    for one in range(10):
        for other in range(one):
            assert not torch.equal(styled[one], styled[other])


def test_hues_are_equally_bright():
    grey = torch.full((10, 3, 32, 32), 200, dtype=torch.uint8)
    styled = KINDS["hue"](grey, torch.arange(10), 0).double() / 255
    light = (styled * LUMA.double()[:, None, None]).sum(1).mean((1, 2))
    assert float(light.max() - light.min()) < 0.005


def test_a_patch_changes_a_corner_alone(base):
    marked = planted.patch(base.images, base.labels, 0)
    changed = (marked != base.images).any(1)
    side = planted.PATCH
    assert not bool(changed[:, side:-side].any())
    assert not bool(changed[:, :, side:-side].any())
    assert bool(changed.flatten(1).any(1).all())


def test_unrelated_styles_are_independent_of_the_class(base):
    splits = planted.unrelated(base, "colour", seed=0)
    agree = splits.bias["train"] == base.labels
    assert float(agree.double().mean()) == pytest.approx(0.1, abs=0.05)


def test_wrong_labels_are_wrong_and_have_the_requested_share(base):
    plain = planted.plain(base)
    noisy = planted.mislabelled(plain, share=0.2, seed=0)
    wrong = noisy.train.targets != plain.train.targets
    assert float(wrong.double().mean()) == pytest.approx(0.2, abs=0.06)
    assert torch.equal(noisy.train.images, plain.train.images)
    assert int(noisy.train.targets.max()) < 10


def test_imbalanced_classes_have_decreasing_sizes():
    many = Base(
        torch.zeros(10_000, 3, 32, 32, dtype=torch.uint8), torch.arange(10_000) % 10, "zeros"
    )
    counts = torch.bincount(planted.imbalanced(many, seed=0).train.targets)
    assert int(counts[0]) == 1000
    assert int(counts[9]) == pytest.approx(50, abs=25)
    assert bool((counts[:-1] > counts[1:]).all())


def test_rare_kinds_are_rare():
    many = Base(
        torch.zeros(10_000, 3, 32, 32, dtype=torch.uint8), torch.arange(10_000) % 10, "zeros"
    )
    splits = planted.rare_kinds(many, seed=0, share=0.1)
    assert splits.classes == ("0", "1", "2", "3", "4")
    assert len(splits.train) == pytest.approx(5000 / 0.9, rel=0.02)


def test_spoiled_images_keep_their_labels(base):
    splits = planted.spoiled(base, seed=0)
    changed = (splits.train.images != base.images).flatten(1).any(1)
    assert float(changed.double().mean()) == pytest.approx(0.1, abs=0.05)
    assert torch.equal(splits.train.targets, base.labels)


def test_random_images_of_a_base_depend_on_the_seed(base):
    one, other = base.some(50, seed=1), base.some(50, seed=2)
    assert len(one.labels) == 50
    assert not torch.equal(one.images, other.images)
    assert torch.equal(one.images, base.some(50, seed=1).images)


def test_other_images_and_kinds_are_refused(base):
    with pytest.raises(DataError, match="base images are"):
        Base(torch.zeros(2, 3, 28, 28, dtype=torch.uint8), torch.tensor([0, 1]), "small")
    with pytest.raises(DataError, match="no shortcut 'smell'"):
        planted.planted(base, "smell", share=0.1, seed=0)
