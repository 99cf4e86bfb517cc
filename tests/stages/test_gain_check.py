"""After training, a debiased model that is not worth its cost is not the result of the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import toys
from toys import shapes_set
from true_miner import TrueMiner, Yes, judged, own, train_only
from unspur import stages
from unspur.stages import gain_check
from unspur.stages.driver import Run
from unspur.stages.gain_check import GainCheck, check_gain, is_worth_it


def gain(suspects: tuple[float, float], others: float) -> dict[str, Any]:
    """Return the facts of a gain: (gain, lower bound) on suspects, and the gain on others."""
    middle, low = suspects
    about = {"gain": middle, "low": low, "high": 2 * middle - low}
    return {"suspects": about, "others": {"gain": others}}


# -- the rule -----------------------------------------------------------------------------------------


def test_a_large_gain_at_a_small_cost_is_worth_it() -> None:
    assert is_worth_it(gain((0.60, 0.30), -0.08))
    assert is_worth_it(gain((0.30, 0.05), 0.02))


def test_a_gain_that_may_be_chance_is_not_worth_anything() -> None:
    assert not is_worth_it(gain((0.10, -0.02), 0.0))


def test_a_gain_must_outweigh_the_cost() -> None:
    assert not is_worth_it(gain((0.12, 0.02), -0.13))


def test_a_set_of_suspects_alone_has_no_cost() -> None:
    assert is_worth_it({"suspects": {"gain": 0.3, "low": 0.1}})


# -- the run ------------------------------------------------------------------------------------------


def test_the_check_compares_both_models_on_samples_outside_of_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gain_check, "is_worth_it", lambda gain: True)
    run = Run(judged(tmp_path))
    ((_, scores),) = stages.run_together([run])
    assert run.gain_check is not None
    # Without a test split the gain on the page is measured on the same samples.
    assert run.gain_check.gain == scores.facts["gain"]
    assert run.gain_check.suspects == scores.facts["gain"]["suspects"]["count"]
    assert run.gain_check.keep
    assert run.rejected is None


def test_the_test_split_has_no_part_in_the_check(tmp_path: Path) -> None:
    whole = shapes_set(samples=600, conflicting=200, seed=1)
    without = replace(train_only(whole), test=whole.test, bias={"train": whole.bias["train"]})
    context = replace(own(tmp_path, without), miner=TrueMiner(train_only(whole), []))
    results, _ = stages.run(replace(context, splits=train_only(whole)))
    wrong = replace(without, test=replace(whole.test, targets=1 - whole.test.targets))  # type: ignore[type-var]
    found = [check_gain(replace(context, splits=splits), results) for splits in (without, wrong)]
    assert found[0] == found[1]
    assert found[0] is not None
    assert found[0].gain is not None


def test_the_ordinary_model_is_the_result_if_debiasing_is_not_worth_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gain_check, "is_worth_it", lambda gain: False)
    run = Run(judged(tmp_path))
    ((results, scores),) = stages.run_together([run])
    assert list(results) == ["mine", "pretrain"]
    assert results.last_network == "pretrain"
    assert scores.facts["debiased"] == scores.facts["ordinary"]
    assert scores.facts["pruned"] is None
    assert run.rejected is not None
    assert list(run.rejected) == ["mine", "pretrain", "prune", "finetune"]


def test_without_a_judge_nothing_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--anyway` and a person's suspects leave the judge out."""
    monkeypatch.setattr(gain_check, "is_worth_it", lambda gain: False)
    run = Run(replace(judged(tmp_path), judge=None))
    ((results, _),) = stages.run_together([run])
    assert run.gain_check is None
    assert results.last_network == "finetune"


def test_with_too_few_suspects_the_debiased_model_is_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gain_check, "FEWEST", 10_000)
    monkeypatch.setattr(gain_check, "is_worth_it", lambda gain: False)
    run = Run(judged(tmp_path))
    ((results, _),) = stages.run_together([run])
    assert run.gain_check is not None
    assert run.gain_check.is_open
    assert run.gain_check.keep
    assert results.last_network == "finetune"


def test_the_check_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, again = Run(judged(tmp_path)), Run(judged(tmp_path))
    stages.run_together([first])

    def refuse(*args: object) -> object:
        raise AssertionError("compared again")

    monkeypatch.setattr(gain_check, "_compare", refuse)
    stages.run_together([again])
    assert again.gain_check == first.gain_check


@pytest.mark.parametrize("on", ["train", "valid"])
def test_samples_that_a_head_was_fitted_to_measure_no_gain(tmp_path: Path, on: str) -> None:
    whole = shapes_set(samples=600, conflicting=200, seed=1)
    splits = replace(whole, test=None, bias={n: whole.bias[n] for n in ("train", "valid")})
    changes = ["mine.how=crossfit", "plan=dfr-mined", f"refit.on={on}", "refit.subsets=2"]
    context = toys.context(tmp_path, changes, splits=splits)
    context = replace(context, miner=TrueMiner(splits, []), judge=Yes())
    run = Run(context)
    ((_, scores),) = stages.run_together([run])
    assert (run.gain_check is not None) == (on == "train")
    assert (scores.facts["unseen"] is not None) == (on == "train")


@pytest.mark.parametrize(
    ("count", "worth", "keep", "is_open"),
    [
        (19, False, True, True),
        (19, True, True, False),
        (20, False, False, False),
        (20, True, True, False),
    ],
)
def test_few_suspects_leave_open_only_what_seems_not_worth_it(
    count: int, worth: bool, keep: bool, is_open: bool
) -> None:
    check = GainCheck(gain((0.6, 0.3), -0.1 if worth else -0.3), count)
    assert (check.keep, check.is_open) == (keep, is_open)


def test_a_gain_below_its_cost_is_rejected_however_few_suspects_there_are() -> None:
    check = GainCheck(gain((0.18, -0.1), -0.52), 11)
    assert not check.keep
    assert not check.is_open
    assert GainCheck(gain((0.18, -0.1), -0.3), 11).is_open  # the interval ends at 0.46
    assert not GainCheck(gain((-0.1, -0.4), 0.02), 11).keep  # a loss


def test_a_cost_that_no_gain_outweighs_is_rejected_however_few_suspects_there_are() -> None:
    check = GainCheck(gain((0.8, 0.2), -0.34), 3)  # three times that cost is more than 1
    assert not check.keep
    assert not check.is_open
    assert GainCheck(gain((0.8, 0.2), -0.33), 3).keep


def test_without_suspects_nothing_is_decided() -> None:
    assert GainCheck(None, 0).is_open
    assert GainCheck(None, 0).keep
