"""Copies of an image are found, and never divided between training and judging."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import audits
from toys import shapes_set
from true_miner import own, train_only
from unspur.audit import half_training
from unspur.audit.audit_networks import MINER, find
from unspur.audit.crossfit import CrossFit
from unspur.audit.halves import cut_in_halves
from unspur.data.copies import LEAST_SHARE, first_copies
from unspur.data.splits import Split, Splits
from unspur.store import Store


def images(count: int, seed: int = 0) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.randint(256, (count, 3, 8, 8), generator=g, dtype=torch.uint8)


def repeated(splits: Splits, index: Tensor) -> Splits:
    """Return a data set whose training images are those of an index."""
    assert isinstance(splits.train, Split)
    train = Split(splits.train.images[index], splits.train.targets[index])
    return replace(splits, train=train, bias={"train": splits.bias["train"][index]})


def test_the_first_copy_of_each_image() -> None:
    some, targets = images(60), torch.arange(60) % 3
    copied = Split(torch.cat([some, some[20:40]]), torch.cat([targets, targets[20:40]]))
    assert first_copies(Split(some, targets)) is None
    assert torch.equal(first_copies(copied), torch.cat([torch.arange(60), torch.arange(20, 40)]))  # type: ignore[arg-type]


def test_hardly_any_copies_are_ignored() -> None:
    """So stored results of data with a few copies keep their keys and their numbers."""
    some = images(1000)
    for copies in (1, 10):
        some[-copies:] = some[:copies]
        found = first_copies(Split(some, torch.arange(1000) % 2))
        assert (found is None) == (copies < LEAST_SHARE * 1000)


def test_a_class_of_few_different_images_is_divided() -> None:
    some, targets = images(60), torch.arange(60) % 2
    some[targets == 0] = some[0].clone()
    assert first_copies(Split(some, targets)) is None


@pytest.mark.parametrize("copies", [2, 5])
def test_copies_are_in_one_half_and_classes_are_still_cut_evenly(copies: int) -> None:
    targets = (torch.arange(200) % 4).repeat(copies)
    half_of = cut_in_halves(targets, seed=3, first=torch.arange(200).repeat(copies))
    assert bool((half_of.reshape(copies, 200) == half_of[:200]).all())
    for label in range(4):
        assert torch.bincount(half_of[targets == label]).tolist() == [25 * copies] * 2


def test_an_audit_judges_no_copy_of_an_image_that_it_trains_on(tmp_path: Path) -> None:
    splits = audits.tinted("shortcut", n=300)
    doubled = repeated(splits, torch.arange(300).repeat(2))
    keys = []
    for each in (splits, doubled):
        crossfit = CrossFit(audits.context(Store(tmp_path), each))
        keys.append(half_training.HalfTraining(crossfit, find(MINER), 0).ingredients())
    assert torch.equal(crossfit.half_of[:300], crossfit.half_of[300:])
    assert "copies" not in keys[0]
    assert "copies" in keys[1]


def test_held_out_and_reserved_images_have_no_copy_in_the_training_data(tmp_path: Path) -> None:
    splits = train_only(shapes_set(samples=600, conflicting=200, seed=1))
    context = own(tmp_path, repeated(splits, torch.arange(600).repeat(2)))
    for kept in (context.held_out, context.reserved):
        assert torch.equal(kept[:600], kept[600:])
        assert bool(kept.any())


def test_an_image_with_two_labels_is_reserved_with_both_or_not_at_all(tmp_path: Path) -> None:
    """Only one of its copies is a suspect. The network would be trained on the other."""
    splits = repeated(
        train_only(shapes_set(samples=600, conflicting=200, seed=1)), torch.arange(600).repeat(2)
    )
    targets = splits.train.targets.clone()
    targets[600:700] = 1 - targets[600:700]
    train = Split(splits.train.take(torch.arange(1200)), targets)
    context = own(tmp_path, replace(splits, train=train))
    assert torch.equal(context.reserved[:600], context.reserved[600:])
    assert bool(context.reserved.any())


def test_copies_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    some = images(60)
    copied = Split(torch.cat([some, some]), torch.arange(120) % 3)
    found = first_copies(copied)
    monkeypatch.setattr("hashlib.blake2b", None)
    assert first_copies(copied) is found
