"""A debiased model that is not worth its cost: folders, page and words of its run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import unspur
from pages import plain
from toys import TinyNet, shapes_set
from true_miner import judged
from unspur import workflow
from unspur.check import checking
from unspur.check.baseline import CheckSettings
from unspur.check.checking import CheckInput
from unspur.data.custom.labelled import LabelledImages
from unspur.deploy import card
from unspur.errors import StoreError
from unspur.report import gain_words, terminal
from unspur.runs.classifier import Classifier
from unspur.runs.evaluation import Evaluation, score_models
from unspur.runs.named_models import open_models, returns_ordinary
from unspur.stages import gain_check
from unspur.stages.driver import Run
from unspur.stages.place import find_place
from unspur.store import read_json
from unspur.workflow import Outcome


@pytest.fixture
def reject(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gain_check, "is_worth_it", lambda gain: False)


def finished(folder: Path) -> Outcome:
    return workflow.carry_out(Run(judged(folder / "store")), folder / "run")


@pytest.mark.usefixtures("reject")
def test_the_result_is_the_ordinary_model_and_the_debiased_one_is_kept(tmp_path: Path) -> None:
    outcome = finished(tmp_path)
    run, images = tmp_path / "run", shapes_set(seed=1).train.take(torch.arange(20))
    assert outcome.rejected is not None
    found = open_models(run, TinyNet())
    assert list(found) == ["ordinary", "debiased"]
    expected = {"ordinary": outcome.results, "debiased": outcome.rejected}
    for name, results in expected.items():
        network = outcome.context.final_network(results.final_weights).eval()
        with torch.no_grad():
            logits = network(outcome.context.preprocess(images))
        assert torch.allclose(found[name](images), logits, atol=1e-5), name
    assert torch.equal(unspur.load(run, TinyNet())(images), found["ordinary"](images))
    assert torch.equal(unspur.load(run / "debiased", TinyNet())(images), found["debiased"](images))
    kept = read_json(run / "debiased" / "scores.json")
    assert kept["gain"] == read_json(run / "scores.json")["gain_check"]["gain"]


@pytest.mark.usefixtures("reject")
def test_a_check_scores_the_result_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished(tmp_path)
    run, scored = tmp_path / "run", dict[str, Classifier]()
    images = LabelledImages(shapes_set(seed=1).train, ("stands", "lies"))
    monkeypatch.setattr(checking, "open_labelled", lambda *given, **options: images)

    def score(models: dict[str, Classifier], *given: Any) -> Evaluation:
        scored.update(models)
        return score_models(models, *given)

    monkeypatch.setattr(checking, "score_models", score)
    inputs = CheckInput("", CheckSettings(seed=0, steps=0, size=0), network=TinyNet())  # type: ignore[arg-type]
    checking._score(inputs, run, "", None, find_place("cpu", tmp_path / "store", terminal.show()))
    (model,) = scored.values()
    expected = unspur.load(run, TinyNet()).state_dict()
    assert all(torch.equal(t, expected[name]) for name, t in model.state_dict().items())


@pytest.mark.usefixtures("reject")
def test_page_and_terminal_say_why_and_where_the_debiased_model_is(tmp_path: Path) -> None:
    outcome = finished(tmp_path)
    said = " ".join(terminal.summary(outcome.numbers))
    page = plain((tmp_path / "run" / "report.html").read_text())
    for text in (said, page):
        assert "Debiasing was tried and is not worth its cost on these images." in text
        assert "The debiased model is in the folder debiased/ of this run." in text
        assert "--anyway" in text
    assert "suspects of the miner" not in said  # both columns would be the ordinary model
    assert "Debiasing is not worth its cost: the ordinary model is the result" in page
    assert "gain in points" in page
    assert "A shortcut is likely" in page
    assert "wrong by the ordinary model" in page
    assert "wrong after debiasing" not in page


def test_a_later_run_that_keeps_its_model_removes_the_rejected_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(gain_check, "is_worth_it", lambda gain: False)
        finished(tmp_path)
    assert (tmp_path / "run" / "debiased" / "model.safetensors").exists()
    (tmp_path / "run" / "debiased" / "report.html").touch()  # unspur report writes it there
    again = Run(replace(judged(tmp_path / "store"), judge=None))
    stored = again.stored
    workflow.carry_out(again, tmp_path / "run")
    assert stored == ["mine", "pretrain", "prune", "finetune"]  # nothing is trained again
    assert not (tmp_path / "run" / "debiased").exists()
    assert list(open_models(tmp_path / "run", TinyNet())) == ["ordinary", "debiased"]


@pytest.mark.usefixtures("reject")
@pytest.mark.filterwarnings("ignore:.*is of another run")
def test_a_later_run_without_a_debiased_model_removes_the_rejected_one(tmp_path: Path) -> None:
    finished(tmp_path)
    context = judged(tmp_path / "store")
    none = replace(context, judge=replace(context.judge, debias=False))  # type: ignore[type-var]
    workflow.carry_out(Run(none), tmp_path / "run")
    assert not (tmp_path / "run" / "debiased").exists()


@pytest.mark.parametrize(
    ("scores", "ordinary"),
    [
        ({"judge": {"debias": True}, "gain_check": {"keep": False}}, True),
        ({"judge": {"debias": True}, "gain_check": {"keep": True}}, False),
        ({"judge": {"debias": False}}, True),
        ({"ordinary": {"average": 1.0}, "debiased": {"average": 1.0}, "selection": {}}, True),
        (
            {"ordinary": {"average": 1.0}, "debiased": {"average": 1.0}, "selection": {"step": 9}},
            False,
        ),
        ({"ordinary": {"average": 1.0}, "debiased": {"average": 1.0}, "refit": {}}, False),
        ({}, False),
    ],
)
def test_scores_say_whether_the_result_is_the_ordinary_model(
    scores: dict[str, Any], ordinary: bool
) -> None:
    assert returns_ordinary(scores) is ordinary
    title = card._title({}, "1", ordinary_result=ordinary)
    assert ("No shortcut was removed" in title) is ordinary


def test_words_for_a_gain_that_costs_too_much() -> None:
    part = {"count": 30, "ordinary": 0.2, "debiased": 0.5, "gain": 0.3, "low": 0.1, "high": 0.5}
    others = {**part, "count": 90, "ordinary": 0.9, "debiased": 0.7, "gain": -0.2}
    gain = {"split": "train", "suspects": part, "others": others}
    said = " ".join(gain_words.rejection({"gain_check": {"keep": False, "gain": gain}}))
    assert "from 20.0\u00a0% to 50.0\u00a0% (+30.0 points" in said
    assert "more than 40.0\u00a0% of the images in use" in said  # 0.2 / (0.3 + 0.2)
    gain["suspects"] = {**part, "low": -0.1}
    said = " ".join(gain_words.rejection({"gain_check": {"keep": False, "gain": gain}}))
    assert "The change on images that contradict the shortcut is not significant." in said
    assert "images in use" not in said
    assert gain_words.rejection({"gain_check": {"keep": True, "gain": gain}}) == []
    assert gain_words.rejection({}) == []


def test_words_for_a_gain_that_could_not_be_checked() -> None:
    few = {"gain_check": {"keep": True, "open": True, "suspects": 3, "gain": None}}
    assert "only 3 suspects" in gain_words.unchecked(few)
    assert gain_words.unchecked({"gain_check": {**few["gain_check"], "open": False}}) == ""
    assert gain_words.unchecked({}) == ""


@pytest.mark.parametrize("name", ["ordinary", "debiased"])
def test_another_run_in_the_folder_of_a_model_is_not_touched(tmp_path: Path, name: str) -> None:
    other = tmp_path / "run" / name
    workflow.carry_out(Run(judged(tmp_path / "store")), other)
    before = {path.name: path.read_bytes() for path in other.iterdir() if path.is_file()}
    with pytest.raises(StoreError, match=rf"{name} contains a run, .*Choose another --out"):
        workflow.carry_out(Run(judged(tmp_path / "store")), tmp_path / "run")
    assert {path.name: path.read_bytes() for path in other.iterdir() if path.is_file()} == before


@pytest.mark.parametrize("left", ["", "damaged"])
@pytest.mark.usefixtures("reject")
def test_a_folder_of_a_model_is_written_again_if_its_manifest_is_lost(
    tmp_path: Path, left: str
) -> None:
    finished(tmp_path)
    manifest = tmp_path / "run" / "debiased" / "manifest.json"
    manifest.write_text(left)
    if not left:
        manifest.unlink()
    finished(tmp_path)
    unspur.load(tmp_path / "run" / "debiased", TinyNet())
