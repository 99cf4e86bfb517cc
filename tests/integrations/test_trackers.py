"""Hooks: losses and scores reach TensorBoard, Weights & Biases and MLflow while a run trains."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from typer.testing import CliRunner

import unspur
from toys import TinyNet, shapes_set
from tracked import read_scalars
from unspur import cli, trackers
from unspur.errors import RecipeError

SHORT = {
    "mine.how": "oracle",
    **{f"{stage}.steps": 4 for stage in ("pretrain", "adapt", "prune", "finetune")},
    **{f"{stage}.batch": 16 for stage in ("pretrain", "adapt", "prune", "finetune")},
    "prune.unit": "weight",
    "log_every": 2,
}
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the trackers' packages


@pytest.fixture(autouse=True)
def offline(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    torch.manual_seed(0)


def debias(on_log, **more):
    return unspur.debias(
        shapes_set(), model=TinyNet(), settings=SHORT, anyway=True, on_log=on_log, **more
    )


def test_a_function_sees_every_logged_step_and_the_scores():
    calls = []
    result = debias(lambda *call: calls.append(call))
    with_loss = [(stage, step) for stage, step, values in calls if "loss" in values]
    stages = ("pretrain", "adapt", "prune", "finetune")
    assert with_loss == [(stage, step) for stage in stages for step in (2, 4)]
    assert calls[-1][:2] == ("evaluate", 0)
    assert not {"step", "seconds"} & {name for _, _, values in calls for name in values}
    assert calls[-1][2]["debiased/unbiased"] == result.scores["debiased"]["unbiased"]


def test_what_is_stored_is_not_trained_and_not_logged_again(tmp_path):
    calls = []
    debias(None, store=tmp_path / "store")
    torch.manual_seed(0)
    debias(lambda stage, *_: calls.append(stage), store=tmp_path / "store")
    assert calls == ["evaluate"]


def test_a_hook_that_fails_is_dropped_with_one_warning():
    calls = []

    def fail(stage, step, values):
        calls.append(stage)
        raise ConnectionError("no route to the tracker")

    with pytest.warns(UserWarning, match="ConnectionError: no route") as caught:
        result = debias(fail)
    assert calls == ["pretrain"]
    assert sum("on_log" in str(each.message) for each in caught) == 1
    assert result.scores["debiased"]


def test_trackers_need_no_import_of_their_own():
    code = "import sys, unspur; unspur.trackers.TensorBoard; print('tensorboard' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    with trackers.TensorBoard(tmp_path / "tb") as tracker:
        result = debias(tracker)
    assert [step for step, _ in read_scalars(tmp_path / "tb" / "prune")["loss"]] == [2, 4]
    scores = read_scalars(tmp_path / "tb" / "evaluate")
    expected = result.scores["debiased"]["unbiased"]
    assert scores["debiased/unbiased"] == [(0, pytest.approx(expected))]


def test_wandb_offline(tmp_path):
    wandb = pytest.importorskip("wandb")
    with trackers.WandB("shortcuts", dir=str(tmp_path)) as tracker:
        result = debias(tracker)
        assert tracker.run.summary["pretrain/step"] == 4
        expected = result.scores["debiased"]["unbiased"]
        assert tracker.run.summary["evaluate/debiased/unbiased"] == pytest.approx(expected)
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    assert wandb.run is None


def test_every_stage_has_its_own_steps_in_wandb(monkeypatch):
    defined, logged = [], []
    run = SimpleNamespace(
        define_metric=lambda name, **options: defined.append((name, options)), log=logged.append
    )
    wandb = SimpleNamespace(init=lambda **options: run)
    monkeypatch.setattr(trackers, "need", lambda *names: wandb)
    tracker = trackers.WandB("shortcuts")
    tracker("mine", 100, {"loss": 2.0})
    tracker("mine", 200, {"loss": 1.0})
    tracker("prune", 100, {"loss": 3.0})
    for stage, place in (("mine", 0), ("prune", 2)):
        assert defined[place : place + 2] == [
            (f"{stage}/step", {"hidden": True}),
            (f"{stage}/*", {"step_metric": f"{stage}/step"}),
        ]
    assert len(defined) == 4
    assert logged[1] == {"mine/step": 200, "mine/loss": 1.0}


def test_mlflow(tmp_path):
    pytest.importorskip("mlflow")
    from mlflow import MlflowClient

    with trackers.MLflow("shortcuts") as tracker:
        result = debias(tracker)
    client, run_id = MlflowClient(), tracker.run.info.run_id
    history = client.get_metric_history(run_id, "finetune/loss")
    assert [each.step for each in history] == [2, 4]
    run = client.get_run(run_id)
    expected = result.scores["debiased"]["unbiased"]
    assert run.data.metrics["evaluate/debiased/unbiased"] == pytest.approx(expected)
    assert run.info.status == "FINISHED"


def test_mlflow_says_that_a_run_failed():
    pytest.importorskip("mlflow")
    from mlflow import MlflowClient

    with pytest.raises(KeyError), trackers.MLflow("shortcuts") as tracker:
        raise KeyError
    assert MlflowClient().get_run(tracker.run.info.run_id).info.status == "FAILED"


def test_the_command_line_names_a_tracker(tmp_path):
    pytest.importorskip("tensorboard")
    steps = [f"--set={stage}.steps=2" for stage in ("mine", "pretrain", "adapt", "prune")]
    arguments = ["run", "demo", "--quiet", "--out", "out", "--store", "store", *steps]
    arguments += ["--set=finetune.steps=2", "--log-to", "tensorboard:tb"]
    done = CliRunner().invoke(cli.app, arguments)
    assert done.exit_code == 0, done.output
    scores = json.loads(Path("out/scores.json").read_text())
    logged = read_scalars(tmp_path / "tb" / "evaluate")["debiased/unbiased"]
    assert logged == [(0, pytest.approx(scores["debiased"]["unbiased"]))]


@pytest.mark.parametrize("text", ["aim:runs", "wandb", "tensorboard:"])
def test_an_unknown_tracker_is_refused(text):
    with pytest.raises(RecipeError, match="Give tensorboard:FOLDER"):
        trackers.open_tracker(text)


def test_a_tracker_that_is_not_installed_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(RecipeError, match=r"pip install 'unspur\[track\]'"):
        trackers.open_tracker("wandb:shortcuts")
