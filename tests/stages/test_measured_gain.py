"""The gain is measured on samples outside of training, and its interval has the right coverage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import toys
from toys import shapes_set, without_valid
from true_miner import TrueMiner, own, train_only
from unspur import stages
from unspur.errors import RecipeError
from unspur.stages.driver import Run
from unspur.stages.gain_check import check_gain
from unspur.stages.measured_gain import paired_gain
from unspur.training.cross_validated import FOLDS, CrossValidated
from unspur.training.watchers import Unseen

# -- the interval -------------------------------------------------------------------------------------


def test_the_gain_of_a_small_example() -> None:
    before = torch.tensor([True, True, False, False, False, True])
    after = torch.tensor([True, False, True, True, True, True])
    found = paired_gain(before, after)
    assert (found.count, found.ordinary, found.gain) == (6, 0.5, pytest.approx(2 / 6))
    # Agresti and Min: 3.5 won, 1.5 lost, of 8.
    spread = 1.959964 * (5 - 2**2 / 8) ** 0.5 / 8
    assert found.low == pytest.approx(2 / 8 - spread)
    assert found.high == pytest.approx(2 / 8 + spread)


def test_intervals_of_extreme_gains_stay_within_bounds() -> None:
    none, all_ = torch.zeros(12, dtype=torch.bool), torch.ones(12, dtype=torch.bool)
    best, same = paired_gain(none, all_), paired_gain(all_, all_)
    assert best.gain == 1
    assert 0.5 < best.low < best.high <= 1
    assert same.low < same.gain == 0 < same.high


@pytest.mark.parametrize(("won", "lost"), [(0.5, 0.05), (0.1, 0.1), (0.85, 0.0)])
@pytest.mark.parametrize("n", [15, 60])
def test_the_interval_has_a_coverage_of_95_per_cent(won: float, lost: float, n: int) -> None:
    g = torch.Generator().manual_seed(0)
    held = 0
    for _ in range(400):
        u = torch.rand(n, generator=g)
        found = paired_gain(u >= 1 - lost, u < won)
        held += found.low <= won - lost <= found.high
    assert held >= 0.93 * 400


# -- the samples --------------------------------------------------------------------------------------


def test_more_suspects_are_kept_out_if_no_other_split_measures_the_gain(tmp_path: Path) -> None:
    context = own(tmp_path, train_only(shapes_set(samples=2000, conflicting=600, seed=1)))
    conflict = context.splits.conflicting("train")
    assert conflict is not None
    assert not bool((context.reserved & ~conflict).any())
    assert not bool((context.reserved & context.held_out).any())
    shares = [float(context.kept_out[part].double().mean()) for part in (conflict, ~conflict)]
    assert shares == [pytest.approx(0.25, abs=0.06), pytest.approx(0.1, abs=0.03)]
    assert context.selection_samples is not None
    assert torch.equal(context.selection_samples[1], context.kept_out)


def test_nothing_is_reserved_if_a_validation_split_measures_the_gain(tmp_path: Path) -> None:
    whole = shapes_set(seed=1)
    assert not own(tmp_path, replace(train_only(whole), valid=whole.test)).reserves


def test_suspects_are_reserved_beside_a_test_split(tmp_path: Path) -> None:
    """The test split does not decide which model is the result, so other samples must."""
    whole = shapes_set(seed=1)
    assert own(tmp_path, replace(train_only(whole), test=whole.test)).reserves


def test_keys_are_computed_without_calling_the_miner(tmp_path: Path) -> None:
    context = own(tmp_path, train_only(shapes_set(seed=1)))
    assert isinstance(context.miner, TrueMiner)
    keys = Run(context).keys
    assert context.miner.asked == []
    assert keys["mine"].ingredients.keys() == {"stage", "version", "crossfit"}
    plain = Run(replace(context, measures_gain=False)).keys
    assert plain["mine"].path == keys["mine"].path
    assert plain["pretrain"].path != keys["pretrain"].path


def test_a_run_without_a_miner_keeps_its_keys(tmp_path: Path) -> None:
    """Stored results of a recipe are found again: without reserved suspects the key does not change."""
    context = toys.context(tmp_path, splits=without_valid(shapes_set(seed=1)))
    assert not bool(context.reserved.any())
    assert torch.equal(context.kept_out, context.held_out)


def test_crossfit_needs_a_miner(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"crossfit.*audit"):
        stages.run(toys.context(tmp_path, ["mine.how=crossfit"]))


# -- the measurement ----------------------------------------------------------------------------------


def test_the_gain_is_measured_on_kept_out_samples(tmp_path: Path) -> None:
    context = own(tmp_path, train_only(shapes_set(samples=600, conflicting=200, seed=1)))
    results, scores = stages.run(context)
    gain = scores.facts["gain"]
    assert gain["split"] == "train"
    conflict = results.suspects().conflict
    assert gain["suspects"]["count"] == int((context.kept_out & conflict).sum()) > 20
    assert gain["others"]["count"] == int((context.held_out & ~conflict).sum())
    assert len(results["finetune"].tensors["right"]) == int(context.kept_out.sum())
    assert next(iter(scores.facts)) == "gain"


def test_the_test_split_measures_the_gain_if_there_is_one(tmp_path: Path) -> None:
    context = own(tmp_path, shapes_set(seed=1))
    _, scores = stages.run(context)
    gain, truth = scores.facts["gain"], context.splits.conflicting("test")
    assert truth is not None
    assert gain["split"] == "test"
    # The miner flags the truly conflicting samples, so the measured accuracies are the true ones.
    for part, metric in (("suspects", "conflicting"), ("others", "aligned")):
        for name in ("ordinary", "debiased"):
            assert gain[part][name] == pytest.approx(scores.facts[name][metric])


def test_no_gain_is_measured_on_samples_that_a_head_was_fitted_to(tmp_path: Path) -> None:
    whole = replace(shapes_set(seed=1), test=None)
    splits = replace(whole, bias={name: t for name, t in whole.bias.items() if name != "test"})
    for on, split in (("train", "valid"), ("valid", None)):
        context = toys.context(
            tmp_path,
            ["mine.how=crossfit", "select.minimum=2", "plan=dfr-mined", f"refit.on={on}"],
            splits=splits,
        )
        context = replace(context, miner=TrueMiner(splits, []))
        results, scores = stages.run(context)
        assert "refit" in results
        assert scores.facts.get("gain", {}).get("split") == split
        assert (check_gain(context, results) is None) == (split is None)


def test_a_run_of_a_recipe_has_no_gain_in_its_scores(tmp_path: Path) -> None:
    assert "gain" not in stages.run(toys.context(tmp_path))[1].facts


# -- selection ----------------------------------------------------------------------------------------


def slow_cross_validation(surprise: Tensor, right: Tensor, conflict: Tensor) -> list[bool]:
    """Score each sample by the step that the other folds select, in plain loops."""
    places = {True: 0, False: 0}
    fold_of = []
    for flagged in conflict.tolist():
        fold_of.append(places[flagged] % FOLDS)
        places[flagged] += 1
    answers = []
    for i, fold in enumerate(fold_of):
        losses = []
        for step in surprise.tolist():
            parts: dict[bool, list[float]] = {True: [], False: []}
            for j, flagged in enumerate(conflict.tolist()):
                if fold_of[j] != fold:
                    parts[flagged].append(step[j])
            losses.append(sum(sum(part) / len(part) for part in parts.values()))
        answers.append(bool(right[losses.index(min(losses)), i]))
    return answers


def test_a_sample_is_scored_by_a_step_that_others_selected(tmp_path: Path) -> None:
    g = torch.Generator().manual_seed(0)
    context = toys.context(tmp_path)
    among = torch.zeros(len(context.splits.train), dtype=torch.bool)
    among[:40] = True
    conflict = torch.rand(40, generator=g) < 0.4
    watcher = CrossValidated(Unseen(context.train, among), conflict, every=1)
    watcher.surprise = torch.rand(7, 40, generator=g)
    watcher.right = watcher.surprise < 0.5
    expected = slow_cross_validation(watcher.surprise.double(), watcher.right, conflict)
    assert watcher.right_when_unseen().tolist() == expected
    again = CrossValidated(Unseen(context.train, among), conflict, every=1)
    watcher.loss, watcher.step = 0.5, 3
    again.restore(watcher.state())
    assert torch.equal(again.right_when_unseen(), watcher.right_when_unseen())


def test_the_step_of_a_method_of_one_stage_is_selected_in_the_same_way(tmp_path: Path) -> None:
    changes = ["mine.how=crossfit", "select.minimum=2", "plan=lff-selected", "select.every=4"]
    splits = train_only(shapes_set(samples=600, conflicting=200, seed=1))
    context = toys.context(tmp_path, [*changes, "lff.steps=12", "lff.batch=16"], splits=splits)
    context = replace(context, miner=TrueMiner(splits, []))
    results, _ = stages.run(context)
    assert results["lff"].facts["selection"]["rule"] == "heldout"
    assert context.selection_samples is not None
    right = results["lff"].tensors["right"]
    assert right.shape == (int(context.selection_samples[1].sum()),)
