"""What `unspur evaluate` prints."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unspur.cli.evaluate_command import _say
from unspur.runs.evaluation import AccuracyShare, Evaluation, EvaluationRow
from unspur.runs.evaluation_files import _gain_text, as_markdown


def evaluation(*names: str) -> Evaluation:
    share = AccuracyShare(0.5, (0.4, 0.6))
    rows = tuple(EvaluationRow("overall", name, 10, {"debiased": share}) for name in names)
    return Evaluation("photos", "test", 10, ("debiased",), rows)


def test_it_says_which_training_images_decide_what_is_conflicting(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _say(evaluation("average"), None)
    assert "conflicting" not in capsys.readouterr().out
    _say(evaluation("average", "aligned", "conflicting"), None)
    said = " ".join(capsys.readouterr().out.split())
    assert "common or rare in their class, among the training images of photos." in said


def test_names_with_brackets_and_colons_are_printed_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    share = AccuracyShare(0.5, (0.4, 0.6), "[/b], :cat:")
    names = ("cat [old]", "[/b]", ":cat:")
    rows = [EvaluationRow("class", name, 10, {"debiased": share}) for name in names]
    _say(Evaluation("photos", "", 10, ("debiased",), tuple(rows)), None)
    said = capsys.readouterr().out
    assert all(name in said for name in names)


def test_names_are_escaped_in_markdown() -> None:
    share = AccuracyShare(0.5, (0.4, 0.6))
    row = EvaluationRow("class", "n/a | <b>\nx", 10, {"debiased": share})
    text = as_markdown(Evaluation("photos", "", 10, ("debiased",), (row,)))
    assert "\n| n/a \\| &lt;b&gt; x | 10 | 50.0 % [40.0 to 60.0] |\n" in text


def test_the_markdown_file_explains_the_scores_as_the_command_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = evaluation("average", "aligned", "conflicting")
    share = AccuracyShare(0.5, (0.4, 0.6))
    group = EvaluationRow("group", "cat, red", 10, {"debiased": share})
    found = replace(found, rows=(*found.rows, group))
    _say(found, None)
    said, text = (" ".join(each.split()) for each in (capsys.readouterr().out, as_markdown(found)))
    for each in (said, text):
        assert "unbiased: the mean over groups. worst group: the group with the lowest" in each
        assert "among the training images of photos." in each


def test_a_loss_has_the_same_minus_as_in_a_report() -> None:
    assert _gain_text((-0.028, (-0.051, -0.0004))) == "−2.8 [−5.1 to +0.0]"
