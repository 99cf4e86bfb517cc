"""The audit from end to end on small data: verdicts, reuse of stored trainings, settings, errors."""

from __future__ import annotations

import csv
import json
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import unspur
from audits import SMALL, context, network, tinted
from toys import Counting, same
from unspur import cli, models
from unspur.audit import audit_networks, auditor, preparation
from unspur.audit.crossfit import CrossFit
from unspur.audit.half_training import _train_at_once, half_trainings, train
from unspur.audit.verdict import conclude
from unspur.data.splits import Split
from unspur.errors import DataError, Interrupted, ModelError
from unspur.runs import audit_folder
from unspur.store import Store
from unspur.training.loop_state import Loop

TRAININGS = 14


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Return a store with the audit of a shortcut, and that audit."""
    store = Store(tmp_path_factory.mktemp("store"))
    return store, auditor.audit(context(store))


# -- verdicts -----------------------------------------------------------------------------------------


def test_a_planted_shortcut_and_its_conflicting_images_are_found(stored):
    _, found = stored
    assert found.finding.code == "shortcut"
    truth = tinted("shortcut").conflicting("train")
    flagged = found.suspects.conflict
    assert float((flagged & truth).sum() / truth.sum()) > 0.9
    assert float((flagged & truth).sum() / flagged.sum()) > 0.8


def test_tints_that_do_not_depend_on_the_class_are_no_shortcut(tmp_path):
    found = auditor.audit(context(Store(tmp_path), tinted("null")))
    assert found.finding.code in ("nothing", "unclear")


def test_wrong_labels_are_distinguished_from_a_shortcut(tmp_path):
    found = auditor.audit(context(Store(tmp_path), tinted("noise")))
    assert found.finding.code == "noise"


# -- stored trainings -------------------------------------------------------------------------------


def test_a_repeated_audit_trains_nothing_and_has_the_same_result(stored):
    store, first = stored
    counting = Counting(store.root)
    again = auditor.audit(context(counting))
    assert counting.made == []
    assert again.as_json() == first.as_json()
    assert same(again.suspects.tensors("s"), first.suspects.tensors("s"))


def test_the_same_seed_gives_the_same_bits(stored, tmp_path):
    _, first = stored
    counting = Counting(tmp_path)
    again = auditor.audit(context(counting))
    assert len(counting.made) == TRAININGS
    assert again.evidence == first.evidence
    assert same(again.suspects.tensors("s"), first.suspects.tensors("s"))


def test_progress_names_the_training(tmp_path):
    names = []

    def show(stage):
        names.append(stage)
        return nullcontext()

    auditor.audit(
        replace(context(Store(tmp_path), **{"mine.steps": 5, "pretrain.steps": 5}), show=show)
    )
    assert names[:2] == ["miner 1/2", "miner 2/2"]
    assert len(names) in (2, TRAININGS)


def test_another_seed_gives_other_halves(stored):
    store, _ = stored
    one, other = CrossFit(context(store)), CrossFit(context(store, seed=1))
    assert not torch.equal(one.half_of, other.half_of)


def test_networks_are_trained_on_one_half_only(stored):
    store, _ = stored
    crossfit = CrossFit(context(store))
    for training in half_trainings(crossfit, audit_networks.phases()[0]):
        index = training.training().order.draw(0, 50)
        assert bool((crossfit.half_of[index] == training.half).all())


@pytest.mark.parametrize("passes", [0, 2])
def test_the_miner_warms_up_for_whole_passes_of_its_half(stored, passes):
    store, _ = stored
    changed = context(store)
    mine = changed.recipe.mine.model_copy(update={"warm_up": passes})
    recipe = changed.recipe.model_copy(update={"mine": mine})
    crossfit = CrossFit(replace(changed, recipe=recipe))
    for training in half_trainings(crossfit, audit_networks.phases()[0]):
        samples = int((crossfit.half_of == training.half).sum())
        assert training.training().method.warm_up == passes * samples // mine.batch


def test_deprived_networks_train_on_no_suspect_and_taught_ones_on_many(stored):
    store, _ = stored
    crossfit = CrossFit(context(store))
    miners = half_trainings(crossfit, audit_networks.phases()[0])
    for training, artifact in zip(miners, train(miners, 1), strict=True):
        crossfit.artifacts[training.network.name, training.half] = artifact
    conflict = crossfit.suspects.conflict
    shares = {}
    for training in half_trainings(crossfit, audit_networks.phases()[1]):
        index = training.training().order.draw(0, 50)
        assert bool((crossfit.half_of[index] == training.half).all())
        share = float(conflict[index].double().mean())
        shares.setdefault(training.network.name, []).append(share)
    assert shares["deprived"] == shares["grey"] == [0.0, 0.0]
    assert min(shares["taught"]) > 0.25 > max(shares["matched"])


def test_the_miners_do_not_depend_on_settings_of_other_networks(stored):
    store, _ = stored
    counting = Counting(store.root)
    auditor.audit(context(counting, **{"pretrain.steps": 20}))
    assert len(counting.made) == TRAININGS - 2


def test_an_audit_that_was_stopped_resumes(stored, tmp_path, monkeypatch):
    _, whole = stored
    steps = []
    stepped = Loop.finish_step

    def stop_late(self, progress):
        steps.append(self.step)
        if len(steps) == 350:
            raise Interrupted("stopped")
        stepped(self, progress)

    monkeypatch.setattr(Loop, "finish_step", stop_late)
    with pytest.raises(Interrupted):
        auditor.audit(context(Store(tmp_path)))
    counting = Counting(tmp_path)
    done = auditor.audit(context(counting))
    assert len(counting.made) == TRAININGS - 3  # three were finished
    assert done.evidence == whole.evidence


def test_several_audits_at_once_equal_single_audits(stored, tmp_path):
    _, alone = stored
    store = Store(tmp_path)
    contexts = [context(store, tinted("null", n=200)), context(store)]
    _, found = auditor.audit_together(contexts, together=4)
    assert found.evidence == alone.evidence


def test_two_audits_of_the_same_data_share_their_trainings(stored):
    store, alone = stored
    counting = Counting(store.root)
    both = auditor.audit_together([context(counting), context(counting)])
    assert counting.made == []
    assert [found.evidence for found in both] == [alone.evidence] * 2


def test_simultaneous_trainings_equal_those_one_by_one(stored, tmp_path):
    store, _ = stored
    counting = Counting(tmp_path)
    miners = half_trainings(CrossFit(context(counting)), audit_networks.phases()[0])
    together = list(_train_at_once([*miners, miners[0]], 2))
    assert len(counting.made) == 2  # a duplicate is trained once
    single = list(train(half_trainings(CrossFit(context(store)), audit_networks.phases()[0]), 1))
    assert [each.path.name for each in together[:2]] == [each.path.name for each in single]
    assert together[2].path == together[0].path
    assert all(same(a.tensors, b.tensors) for a, b in zip(together[:2], single, strict=True))


def test_if_the_miner_decides_no_other_network_is_trained(tmp_path):
    splits = tinted("shortcut", odd=0)  # no image contradicts it
    counting = Counting(tmp_path)
    found = auditor.audit(context(counting, splits))
    assert found.finding.code == "unclear"
    assert len(counting.made) == 2


# -- settings and errors ------------------------------------------------------------------------------


@pytest.mark.parametrize(("images", "steps"), [(200, 300), (10_000, 625), (10**6, 1500)])
def test_the_length_of_training_depends_on_the_number_of_images(images, steps):
    settings = preparation.settings(images, name="photos")
    assert settings.mine.steps == settings.pretrain.steps == steps


def test_the_length_of_training_can_be_set():
    settings = preparation.settings(200, name="photos", steps=20)
    assert settings.mine.steps == settings.pretrain.steps == 20


def test_one_class_is_refused(tmp_path):
    splits = tinted("null")
    only = replace(splits, train=Split(splits.train.images, torch.ones(600, dtype=torch.int64)))
    with pytest.raises(DataError, match="one class, 'lies'"):
        auditor.audit(context(Store(tmp_path), only))


def test_too_few_images_are_refused(tmp_path):
    with pytest.raises(DataError, match="60 training images are too few"):
        auditor.audit(context(Store(tmp_path), tinted("null", n=60)))


def test_a_network_that_does_not_fit_is_refused(tmp_path):
    wrong = replace(context(Store(tmp_path)), builder=models.copy_builder(network(classes=3)))
    with pytest.raises(ModelError):
        auditor.audit(wrong)


# -- API and command ----------------------------------------------------------------------------------


def test_the_python_function_gives_the_same_audit_and_a_folder(stored, tmp_path):
    store, first = stored
    found = unspur.audit(
        tinted("shortcut"),
        model=network(),
        settings=SMALL,
        device="cpu",
        store=store.root,
        out=tmp_path / "out",
    )
    assert found.evidence == first.evidence
    about = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert about["verdict"] == "shortcut"
    assert about["evidence"]["suspects"] == first.evidence.suspects
    rows = list(csv.DictReader((tmp_path / "out" / "suspects.csv").read_text().splitlines()))
    assert len(rows) == 600
    assert sum(row["flag"] == "suspect" for row in rows) == int(first.suspects.conflict.sum())
    assert (
        "unspur.debias(data, model=model, suspects="
        in (tmp_path / "out" / "report.html").read_text()
    )


def test_the_command_prints_the_verdict_and_the_next_command(tmp_path):
    splits = tinted("shortcut", n=120, odd=0)
    for index, (image, label) in enumerate(
        zip(splits.train.images, splits.train.targets, strict=True)
    ):
        file = tmp_path / "photos" / splits.classes[int(label)] / f"{index}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(file)
    out = tmp_path / "out"
    arguments = ["audit", str(tmp_path / "photos"), "--out", str(out), "--steps", "30"]
    arguments += [
        "--store",
        str(tmp_path / "store"),
        "--device",
        "cpu",
        "--set",
        "model.options={width=4}",
    ]
    done = CliRunner().invoke(cli.app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    about = json.loads((out / "audit.json").read_text())
    assert about["text"] in done.output.replace("\n", "")
    command = conclude(audit_folder.read(out).evidence).command
    assert f"unspur {'audit' if command in ('again', 'longer') else 'debias'}" in done.output
    assert (out / "suspects.csv").read_text().startswith("path,label,score")
    assert f"Open {out / 'report.html'}." in done.output.replace("\n", "")
    assert str(tmp_path / "photos") in (out / "report.html").read_text()
