"""The corrections of a person and the change of the scores, compared with a count by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import toys
from toys import shapes_set, without_valid
from unspur import stages
from unspur.report import correction_words
from unspur.runs import person_changes
from unspur.runs.person_changes import BEFORE_REVIEW
from unspur.runs.suspects_csv import read_suspects
from unspur.stages.corrections import relabel, sample_names
from unspur.workflow import Outcome, save_outcome

MANY = ("select.share=0.3",)


def without_test(splits):
    bias = {name: labels for name, labels in splits.bias.items() if name == "train"}
    return replace(splits, valid=None, test=None, bias=bias)


def earlier(folder, splits):
    """Save a run without corrections; return its context and scores."""
    context = toys.context(folder / "store", MANY, splits=splits)
    made, scores = stages.run(context)
    save_outcome(Outcome(context, made, scores, None), folder / "run")
    return context, scores


def corrected(folder, splits, edit):
    """Run again with the table of the earlier run, after some edits; return context, results and scores."""
    path = folder / "run" / "suspects.csv"
    lines = path.read_text().splitlines()
    cells = [line.split(",") for line in lines[1:]]
    edit(cells)
    path.write_text("\n".join([f"{lines[0]},new_label", *map(",".join, cells)]) + "\n")
    given = read_suspects(
        path, sample_names(splits.train), targets=splits.train.targets, classes=splits.classes
    )
    context = toys.context(folder / "store", MANY, splits=relabel(splits, given))
    context = replace(context, corrections=given)
    return context, *stages.run(context)


def edit_some(cells):
    """Clear the flags of the first two rows, exclude the third, relabel the fourth, and flag the last."""
    for row in cells:
        row.append("")
    for row in cells[:2]:
        row[4] = ""
    cells[2][4] = "exclude"
    cells[-1][4] = "suspect"
    cells[3][6] = "lies" if cells[3][1] == "stands" else "stands"


@pytest.mark.parametrize("tested", [True, False])
def test_changes_are_counted_and_scores_compared_on_the_same_images(tmp_path, tested):
    splits = without_valid(shapes_set(seed=1)) if tested else without_test(shapes_set(seed=1))
    before, first = earlier(tmp_path, splits)
    context, _, scores = corrected(tmp_path, splits, edit_some)
    found = person_changes.person_changes(context, scores)
    assert (found["excluded"], found["relabelled"], found["notes"]) == (1, 1, 0)
    assert (found["flags"]["cleared"], found["flags"]["added"]) == (2, 1)
    assert found["changed"] == len(found["examples"]) == 5
    whole = found["scores"]["parts"]["all"]
    if tested:
        targets = splits.test.targets
        old, new = (each.tensors["predicted.debiased"] for each in (first, scores))
    else:
        both = before.held_out & context.held_out
        targets = context.splits.train.targets[both]
        old = first.tensors["predicted.debiased"][both[before.held_out]]
        new = scores.tensors["predicted.debiased"][both[context.held_out]]
        parts = found["scores"]["parts"]
        assert parts["suspects"]["count"] + parts["others"]["count"] == whole["count"]
    assert whole["count"] == len(targets)
    assert whole["before"] == pytest.approx(float((old == targets).double().mean()))
    assert whole["after"] == pytest.approx(float((new == targets).double().mean()))
    assert whole["low"] <= whole["after"] - whole["before"] <= whole["high"]
    words = correction_words.describe(found)
    assert "cleared 2; you added 1" in words.sentences[0]
    assert any(f"On {whole['count']:,} images" in each for each in words.sentences)


def test_flags_are_compared_with_the_table_from_before_the_review(tmp_path):
    splits = without_test(shapes_set(seed=1))
    earlier(tmp_path, splits)
    table = (tmp_path / "run" / "suspects.csv").read_text()
    (tmp_path / "run" / BEFORE_REVIEW).write_text(table.replace(",suspect,", ",,"))
    context, _, scores = corrected(
        tmp_path, splits, lambda cells: [row.append("") for row in cells]
    )
    flags = person_changes.person_changes(context, scores)["flags"]
    assert flags == {"kept": 0, "cleared": 0, "added": int(context.corrections.conflict.sum())}


def test_without_an_earlier_run_nothing_is_compared(tmp_path):
    splits = without_test(shapes_set(seed=1))
    earlier(tmp_path, splits)
    context, _, scores = corrected(
        tmp_path, splits, lambda cells: [row.append("") for row in cells]
    )
    alone = replace(context.corrections, source=str(tmp_path / "suspects.csv"))
    found = person_changes.person_changes(replace(context, corrections=alone), scores)
    assert found["flags"] is None
    assert "not the folder of a run" in found["scores"]["missing"]
    words = correction_words.describe(found)
    assert "no longer stored" in words.sentences[0]
    assert words.table is None


def test_runs_scored_on_other_images_are_not_compared(tmp_path):
    splits = without_test(shapes_set(seed=1))
    earlier(tmp_path, splits)
    context, _, scores = corrected(tmp_path, splits, edit_some)
    other = replace(context, recipe=context.recipe.model_copy(update={"seed": 7}))
    found = person_changes.person_changes(other, scores)
    assert "other images" in found["scores"]["missing"]


def test_a_run_without_corrections_has_no_record_of_changes(tmp_path):
    context = toys.context(tmp_path, splits=without_test(shapes_set(seed=1)))
    assert person_changes.person_changes(context, None) is None
    assert correction_words.describe(None) is None
    assert torch.is_tensor(context.held_out)
