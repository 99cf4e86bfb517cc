"""The page and the terminal begin with the measured gain and its interval."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
import torch

from pages import plain
from unspur.report import gain_words, words
from unspur.report.terminal import score_table, summary
from unspur.runs.intervals import Intervals
from unspur.stages.measured_gain import paired_gain

UNKNOWN = {"unbiased": None, "aligned": None, "conflicting": None, "worst_group": None}


def part(n: int, before: int, after: int) -> dict[str, Any]:
    """Return the gain from a network that gets `before` of n images right to one that gets `after` right."""
    index = torch.arange(n)
    return asdict(paired_gain(index < before, index < after))


def scores(**changes: Any) -> dict[str, Any]:
    return {
        "gain": {"split": "train", "suspects": part(40, 4, 28), "others": part(200, 198, 190)},
        "evaluated_on": "test",
        "ordinary": {**UNKNOWN, "average": 0.987},
        "pruned": {**UNKNOWN, "average": 0.5},
        "debiased": {**UNKNOWN, "average": 0.947},
        "density": {"overall": 0.27},
        "mining": None,
        "selection": {"rule": "heldout"},
        **changes,
    }


def test_the_summary_begins_with_the_gain_and_its_cost() -> None:
    lines = [plain(line) for line in summary(scores())]
    for part in ("40 held-out images", "10.0 %", "70.0 %", "+60.0 points, 95 % interval +"):
        assert part in lines[0]
    assert "200 other held-out images" in lines[1]
    assert "(−4.0 points, 95 % interval −" in lines[1]
    assert "Neither model was trained on the images of this comparison." in lines[2]
    assert "not significant" not in lines[2]
    assert lines[3] == "The average is on the test split."


@pytest.mark.parametrize(
    ("before", "after", "said"), [(10, 11, "not significant"), (30, 4, "became worse")]
)
def test_gains_that_are_not_significant_or_negative_get_a_remark(
    before: int, after: int, said: str
) -> None:
    gain = {"split": "test", "suspects": part(40, before, after)}
    assert said in " ".join(gain_words.sentences(gain))


def test_suspects_that_the_average_leaves_out_are_counted() -> None:
    """With 12 suspects, of which 7 count, the average does not follow from the two accuracies before it."""
    unseen = {"counts": {"all": 207, "suspects": 7, "others": 200}}
    gain = {"split": "train", "suspects": part(12, 2, 8), "others": part(200, 198, 190)}
    found = scores(
        gain=gain, unseen=unseen, evaluated_on="the training samples kept out of training"
    )
    said = [plain(line) for line in summary(found)]
    assert said[3:5] == [
        "The average is on held-out training images.",
        "The average counts 207 images with 7 suspects. The other 5 suspects were kept out of training only "
        "to measure the gain.",
    ]
    check = {"keep": False, "open": False, "suspects": 12, "gain": gain}
    rejected = {**found, "gain": None, "gain_check": check, "pruned": None}
    assert gain_words.scope_of_average(rejected) == said[4]
    assert gain_words.scope_of_average({**found, "evaluated_on": "test"}) == ""
    assert gain_words.scope_of_average({**found, "unseen": None}) == ""
    unseen["counts"] |= {"all": 212, "suspects": 12}
    assert gain_words.scope_of_average(found) == ""


def test_the_table_has_the_gain_before_the_average() -> None:
    table = score_table(scores())
    names = [column.header for column in table.columns]
    assert names == ["accuracy", "suspects (40)", "others (200)", "average", "weights kept"]
    assert [*table.columns[1].cells] == ["10.0 %", "–", "70.0 %"]


def test_with_bias_labels_the_measured_gain_is_not_shown() -> None:
    known = {**UNKNOWN, "unbiased": 0.5, "conflicting": 0.4, "average": 0.9}
    assert gain_words.measured(scores(debiased=known)) is None


def test_the_page_has_a_table_of_the_gain() -> None:
    found = gain_words.table(scores()["gain"])
    assert [name for name, _ in found.columns] == ["suspects", "others"]
    assert [name for name, _ in found.rows] == [
        "ordinary model",
        "debiased model",
        "gain in points",
    ]
    gains = [plain(cell.text) for cell in found.rows[-1][1]]
    assert gains == ["+60.0", "−4.0"]
    assert all(cell.range for _, cells in found.rows for cell in cells)


def test_a_run_whose_result_is_the_ordinary_model_has_one_row() -> None:
    same = {**UNKNOWN, "average": 0.987}
    ended = scores(ordinary=same, debiased=same, pruned=None, gain=None)
    assert [*score_table(ended).columns[0].cells] == ["ordinary"]
    refitted = {**ended, "refit": {"strength": 1.0}}
    assert [*score_table(refitted).columns[0].cells] == ["ordinary", "debiased"]
    assert [*score_table(scores()).columns[0].cells] == ["ordinary", "pruned", "debiased"]


def test_a_loss_that_is_not_significant_is_not_called_a_gain() -> None:
    before = {"conflicting": 0.6, "aligned": 0.9}
    scores = {
        "ordinary": before,
        "debiased": {**before, "conflicting": 0.57},
        "evaluated_on": "test",
    }
    said = words.change(scores, Intervals({}, {"conflicting": (-0.07, 0.01)}))
    assert "−3.0 points" in said
    assert said.endswith("This change is not significant.")


@pytest.mark.parametrize(("count", "words"), [(1, "only 1 suspect is"), (3, "only 3 suspects are")])
def test_an_open_check_counts_its_suspects(count, words):
    assert words in gain_words.unchecked({"gain_check": {"open": True, "suspects": count}})
