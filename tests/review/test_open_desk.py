"""The review of a real run and of an audit: images, networks, the debias command, and the new run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time

import pytest
import torch
from PIL import Image

pytest.importorskip("uvicorn", reason="the review is served with the extra 'review'")

from audits import page_of, tinted
from reviews import PATIENCE, make_run, read_rows
from unspur import load
from unspur.errors import DataError, StoreError, UsageError
from unspur.review import page_orders
from unspur.review.debias_job import DebiasJob, debias_command, free_folder
from unspur.review.decision_log import Decision
from unspur.review.image_sources import NoImages
from unspur.review.network_views import fit_map
from unspur.review.review_server import open_desk
from unspur.store import check_folder


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("small_run"))


@pytest.fixture
def run(small_run, tmp_path):
    shutil.copytree(small_run.parent, tmp_path / "all")
    return tmp_path / "all" / "run"


def wait(question):
    until = time.monotonic() + PATIENCE
    while (found := question()).get("wait") is not None:
        assert time.monotonic() < until
        time.sleep(0.05)
    return found


def wait_for_end(job, seconds=PATIENCE):
    until = time.monotonic() + seconds
    while job.state()["state"] == "running":
        assert time.monotonic() < until, job.state()
        time.sleep(0.05)


def test_images_of_a_run_are_found(run):
    desk = open_desk(run)
    assert desk.images.show(0, 100).size == (8, 8)
    name = desk.review.replay.table.names[0]
    (run.parent / "photos" / name).unlink()
    assert open_desk(run).images.paths[0] is None


def test_networks_have_predictions_and_saliency_maps(run):
    desk = open_desk(run)
    predictions = desk.views.predictions(0)
    assert [each["network"] for each in predictions] == ["ordinary", "debiased"]
    assert {each["predicted"] for each in predictions} <= {"stands", "lies"}
    path = run.parent / "photos" / desk.review.replay.table.names[0]
    assert predictions[1]["predicted"] == load(run).predict([path])[0][0]
    heat = desk.views.look(0, "debiased")
    assert (heat.mode, heat.size) == ("RGBA", (8, 8))
    assert heat.getextrema()[3][1] > 0


def test_a_map_of_a_cropped_input_has_the_shape_of_the_whole_image():
    heat = Image.new("RGBA", (10, 10), (255, 0, 0, 255))
    assert fit_map(heat, (40, 20), None).getextrema()[3] == (255, 255)
    cut = fit_map(heat, (40, 20), 0.5)
    assert cut.size == (40, 20)
    assert cut.getchannel("A").getbbox() == (15, 5, 25, 15)


def test_a_region_is_hidden_for_the_networks_of_a_run(run):
    desk = open_desk(run, read_only=True)
    assert desk.regions.about() == {"high": 8, "wide": 8, "share": None, "most": 300}
    before = sorted(path for path in run.rglob("*") if path.is_file())
    page_orders.start_region(desk, {"region": [0, 0, 8, 8]})
    until = time.monotonic() + PATIENCE
    while (job := desk.regions.state())["state"] == "running":
        assert time.monotonic() < until
        time.sleep(0.05)
    assert [each["name"] for each in job["answer"]["models"]] == ["ordinary", "debiased"]
    assert "predictions change" in job["answer"]["models"][1]["sentences"][0]
    assert sorted(path for path in run.rglob("*") if path.is_file()) == before


def test_features_are_computed_while_no_other_request_uses_the_network(run):
    desk = open_desk(run)
    held = []
    network = desk.views.networks()["debiased"].model
    network.register_forward_pre_hook(lambda *_: held.append(desk.views._lock.locked()))
    wait(lambda: desk.views.neighbours(0, range(len(desk.review.replay.table)), 3))
    assert held
    assert all(held)


def test_neighbours_are_the_most_similar_images(run):
    desk = open_desk(run)
    table = desk.review.replay.table
    copied = next(i for i in range(1, len(table)) if table.labels[i] == table.labels[0])
    photos = run.parent / "photos"
    shutil.copyfile(photos / table.names[0], photos / table.names[copied])
    found = wait(lambda: desk.views.neighbours(0, range(len(table)), 4))
    assert found["rows"][0] == {"row": copied, "similarity": 1.0}
    assert len(found["rows"]) == 4
    assert found["among"] == len(table)
    similar = [each["similarity"] for each in found["rows"]]
    assert similar == sorted(similar, reverse=True)


def test_an_audit_stores_no_network(tmp_path):
    page = page_of(tmp_path, tinted("shortcut"))
    desk = open_desk(page.parent)
    assert "no network" in desk.views.missing
    assert desk.views.predictions.__self__.networks() == {}
    assert "no network" in desk.views.neighbours(0, [0, 1], 2)["missing"]
    with pytest.raises(DataError, match=r"Python.*--images"):
        desk.images.show(0, 10)


def test_a_review_does_not_break_the_seal_of_a_run(run):
    desk = open_desk(run)
    desk.review.decide(Decision(0, "exclude", [desk.review.replay.table.names[0]]))
    assert check_folder(run, "run.json")
    load(run)


def test_a_damaged_folder_is_refused(run):
    (run / "model.safetensors").write_bytes(b"")
    with pytest.raises(StoreError, match=r"model\.safetensors is damaged"):
        open_desk(run)


def test_data_that_was_moved_can_be_given(run, tmp_path):
    (run.parent / "photos").rename(tmp_path / "moved")
    assert isinstance(open_desk(run).images, NoImages)
    assert open_desk(run, images=str(tmp_path / "moved")).images.show(0, 10).size == (8, 8)


def test_the_command_repeats_the_run_with_another_folder(run):
    command = debias_command(run)
    assert command.arguments[:2] == ["debias", str(run.parent / "photos")]
    assert command.arguments[2:6] == [
        *("--suspects", str(run / "suspects.csv"), "--out", str(run.parent / "run-reviewed"))
    ]
    assert "--anyway" in command.arguments
    assert "--model=convnet" in command.arguments
    assert not {"elsewhere", "-q"} & set(command.arguments)
    (run.parent / "run-reviewed").mkdir()
    assert free_folder(run).name == "run-reviewed-2"


def test_a_run_without_image_files_cannot_be_repeated(run):
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**record, "source": ""}))
    with pytest.raises(UsageError, match=r"unspur\.debias\(data, suspects="):
        debias_command(run)


@pytest.mark.slow
def test_debiasing_uses_the_decisions_and_reports_them(run, monkeypatch):
    """Relabel, exclude and clear images, run the command, and check the new run and its page."""
    desk = open_desk(run)
    table = desk.review.replay.table
    suspects = [i for i, state in enumerate(table.state) if state.flag]
    others = {"stands": "lies", "lies": "stands"}
    relabelled, excluded, cleared = (table.names[i] for i in suspects[:3])
    label = others[table.labels[suspects[0]]]
    desk.review.decide(Decision(0, "relabel", [relabelled], label=label, key="a"))
    desk.review.decide(Decision(0, "exclude", [excluded], key="b"))
    desk.review.decide(Decision(0, "clear", [cleared], key="c"))
    desk.review.decide(Decision(0, "note", [cleared], note="looks ordinary", key="d"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    job = DebiasJob(run)
    job.start()
    with pytest.raises(UsageError, match="already running"):
        job.start()
    wait_for_end(job, 5 * PATIENCE)
    assert job.state()["state"] == "done", job.state()["lines"]
    record = json.loads((run.parent / "run-reviewed" / "run.json").read_text())["corrections"]
    assert (record["relabelled"], record["excluded"], record["notes"]) == (1, 1, 1)
    assert record["flags"] == {"kept": len(suspects) - 3, "cleared": 2, "added": 0}
    assert {each["name"] for each in record["examples"]} == {relabelled, excluded, cleared}
    rows = read_rows(run.parent / "run-reviewed" / "suspects.csv")
    assert rows[relabelled]["new_label"] == label
    assert rows[relabelled]["label"] == others[label]
    assert rows[excluded]["flag"] == "exclude"
    page = job.report().read_text()
    assert "What you changed" in page
    assert "1 image has a new label" in page
    assert "looks ordinary" in page


def test_a_command_can_be_stopped(run, monkeypatch):
    job = DebiasJob(run)
    assert job.state() == {"state": "none"}
    job.start()
    job.stop()
    wait_for_end(job)
    assert job.state()["state"] == "failed"
    assert job.report() is None


def test_a_second_stop_ends_a_command_that_ignores_ctrl_c(run, monkeypatch):
    program = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    program += "print('ready', flush=True); time.sleep(600)"
    job = DebiasJob(run)
    start = subprocess.Popen
    line = [sys.executable, "-c", program]
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: start(line, **options))
    job.start()
    until = time.monotonic() + PATIENCE
    while "ready" not in job.state()["lines"] and time.monotonic() < until:
        time.sleep(0.02)
    job.stop()
    time.sleep(0.2)
    assert job.state()["state"] == "running"
    job.stop()
    wait_for_end(job)
    assert job.state()["state"] == "failed"


def test_neighbours_are_searched_in_a_sample_of_many_images(run, monkeypatch):
    monkeypatch.setattr("unspur.review.network_views.MOST_FEATURES", 50)
    desk = open_desk(run)
    found = wait(lambda: desk.views.neighbours(0, range(240), 3))
    assert found["among"] <= 50
    assert torch.is_tensor(desk.views._features._matrix)
