"""The suspects of a run are those of an audit, and reuse its trainings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import audits
from toys import Counting
from unspur import models
from unspur.audit import audit_networks, auditor, crossfit_miner, half_training, preparation
from unspur.audit.crossfit import CrossFit
from unspur.audit.crossfit_miner import CrossFitMiner
from unspur.data.splits import Split, Splits
from unspur.errors import DataError
from unspur.recipes import Recipe, change
from unspur.store import Store


@pytest.fixture(scope="module")
def splits() -> Splits:
    whole, other = audits.tinted("shortcut", n=300, odd=20), audits.tinted("shortcut", n=90, seed=1)
    assert isinstance(other.train, Split)
    return replace(whole, test=other.train, bias={})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


def miner(store: Path, splits: Splits) -> CrossFitMiner:
    return CrossFitMiner(audits.context(Counting(store), splits))


def test_keys_are_known_before_anything_is_trained(store: Path, splits: Splits) -> None:
    found = miner(store, splits)
    keys = set(found.keys.values())
    assert not any((store / key).exists() for key in keys)
    assert found.cost()[0] == 4 * found.context.recipe.mine.steps
    found()
    assert {path.name for path in found.context.store.artifacts()} == keys
    assert miner(store, splits).cost() == (0, 0.0)


def test_after_an_audit_its_suspects_are_used_and_nothing_is_trained(
    store: Path, splits: Splits
) -> None:
    audit = auditor.audit(audits.context(Counting(store), splits))
    found = miner(store, splits)
    suspects = found()["train"]
    assert isinstance(found.context.store, Counting)
    assert found.context.store.made == []
    for name in ("conflict", "score", "predicted"):
        assert torch.equal(getattr(suspects, name), getattr(audit.suspects, name)), name


def test_other_splits_have_suspects_too(store: Path, splits: Splits) -> None:
    suspects = miner(store, splits)()
    assert suspects.keys() == {"train", "test"}
    assert splits.test is not None
    wrong = suspects["test"].predicted != splits.test.targets
    assert len(wrong) == 90
    assert not bool((suspects["test"].conflict & ~wrong).any())
    truth = audits.tinted("shortcut", n=90, seed=1).conflicting("train")
    assert truth is not None
    hits = suspects["test"].conflict & truth
    assert int(hits.sum()) > 0.8 * int(suspects["test"].conflict.sum()) > 0


def test_a_recipe_uses_the_miner_of_an_audit_only_if_images_can_be_audited() -> None:
    def images(targets: Tensor, side: int = 8) -> Split:
        return Split(torch.zeros(len(targets), 3, side, side, dtype=torch.uint8), targets.long())

    assert crossfit_miner.choose(Recipe(), images(torch.arange(99) % 2)).mine.how == "gce"
    assert crossfit_miner.choose(Recipe(), images(torch.zeros(500))).mine.how == "gce"
    assert crossfit_miner.choose(Recipe(), images(torch.arange(500) % 2, 4)).mine.how == "gce"
    chosen = crossfit_miner.choose(Recipe(), images(torch.arange(500) % 2))
    assert chosen.mine.how == "crossfit"
    assert crossfit_miner.is_used(chosen)
    assert not crossfit_miner.is_used(change(chosen, {"plan": "erm"}))


def test_too_few_images_are_an_error_if_the_recipe_requires_this_miner(tmp_path: Path) -> None:
    few = audits.context(Counting(tmp_path), audits.tinted("shortcut", n=60, odd=6))
    with pytest.raises(DataError, match="60 training images are too few"):
        crossfit_miner.of(few, change(Recipe(), {"mine.how": "crossfit"}))


def test_networks_trained_two_at_a_time_equal_those_trained_alone(tmp_path: Path) -> None:
    """Two threads give two lanes; every artifact equals that of one thread."""
    tensors: dict[int, list[dict[str, Tensor]]] = {}
    plain = models.builder(preparation.NETWORK, 2, {"width": 2})
    for threads in (1, 2):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            audited = audits.context(Store(tmp_path / str(threads)), **{"mine.steps": 6})
            assert half_training.lanes(audited) == 1  # not the default network of an audit
            audited = replace(audited, builder=plain)
            assert half_training.lanes(audited) == threads
            crossfit = CrossFit(audited)
            trainings = half_training.half_trainings(
                crossfit, [audit_networks.find(audit_networks.MINER)]
            )
            found = list(half_training.train(trainings, 1))
        finally:
            torch.set_num_threads(before)
        tensors[threads] = [artifact.tensors for artifact in found]
        assert {artifact.about["with"]["threads"] for artifact in found} == {"1"}
    for alone, beside in zip(tensors[1], tensors[2], strict=True):
        assert alone.keys() == beside.keys()
        assert all(torch.equal(alone[name], beside[name]) for name in alone)
