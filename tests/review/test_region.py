"""Hide a region from the page: the answer, its sample, wrong regions, stopping, and what is never written."""

from __future__ import annotations

import json
import time

import pytest

pytest.importorskip("uvicorn", reason="the review is served with the extra 'review'")

from reviews import PATIENCE, make_desk, make_region_desk, request, serving, write_table
from unspur.review.image_sources import NoImages
from unspur.review.region_sample import sample_rows
from unspur.review.replay import Replay
from unspur.review.suspect_table import RowState, parse_table

CORNER = [0, 0, 4, 4]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


def send(url, path, body=None):
    how = {} if body is None else {"method": "POST", "body": body}
    status, _, content = request(url + path, **how)
    return status, json.loads(content)


def finish(url):
    """Return the state of the test when it has ended."""
    until = time.monotonic() + PATIENCE
    while (job := send(url, "api/region")[1]["job"])["state"] == "running":
        assert time.monotonic() < until
        time.sleep(0.02)
    return job


def ask(url, region):
    status, started = send(url, "api/region/start", {"region": region})
    assert (status, started["region"]) == (200, region)
    return finish(url)


def test_the_answer_counts_changed_predictions_of_both_models(folder):
    desk, _ = make_region_desk(folder)
    with serving(desk) as url:
        job = ask(url, CORNER)
    answer = job["answer"]
    ordinary, debiased = answer["models"]
    assert (ordinary["name"], debiased["name"]) == ("ordinary", "debiased")
    # The mean colour of all images is darker than the threshold of the network: all cats become dogs.
    assert ordinary["sentences"][0].startswith(
        "Without this region, 20 of 40 predictions change. Accuracy: 100.0\xa0% to 50.0\xa0%, −50.0 points ["
    )
    assert ordinary["sentences"][1].startswith(
        "20 of 20 correctly classified images of cat become dog (accuracy on cat: −100.0 points [−100.0 to "
    )
    assert ordinary["sentences"][2].startswith("With this region of an image of another class")
    assert debiased["sentences"][0].startswith("Without this region, 0 of 40 predictions change.")
    assert len(debiased["sentences"]) == 2
    assert answer["headline"] == "The ordinary model relies on this region."
    assert answer["comparison"].startswith("The effect on the debiased model is 100.0 points less")
    assert answer["sample"] == "Measured on all 40 training images of the table."
    assert answer["classes"][1][:2] == ["cat", "20"]
    assert answer["flips"][0]["name"].startswith("cat/")
    assert (answer["flips"][0]["before"], answer["flips"][0]["after"]) == ("cat", "dog")
    assert job["command"].endswith("--hide region 0,0,4,4")


def test_another_region_gives_another_answer(folder):
    desk, _ = make_region_desk(folder)
    with serving(desk) as url:
        answer = ask(url, [8, 0, 4, 4])["answer"]
        assert "20 of 40" in answer["models"][1]["sentences"][0]
        assert "No sign" in ask(url, [0, 8, 16, 8])["answer"]["headline"]


def test_pictures_of_flips_are_served(folder):
    desk, _ = make_region_desk(folder)
    with serving(desk) as url:
        number = ask(url, CORNER)["number"]
        before, after = (request(f"{url}flip/{number}/0/{side}") for side in ("before", "after"))
        assert before[0] == after[0] == 200
        assert before[1]["content-type"] == "image/png"
        assert before[2] != after[2]
        for wrong in (f"flip/{number}/99/before", f"flip/{number + 1}/0/before", "flip/0/0/x"):
            status, content = send(url, wrong)
            assert status == 400
            assert "no such picture" in content["error"]


def test_nothing_is_written_and_read_only_may_ask(folder):
    desk, _ = make_region_desk(folder, read_only=True)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with serving(desk) as url:
        assert ask(url, CORNER)["state"] == "done"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("region", "message"),
    [
        (None, "four whole numbers"),
        ([0, 0, 4], "four whole numbers"),
        ([0, 0, 4, "4"], "four whole numbers"),
        ([0, 0, 4, 4.0], "four whole numbers"),
        ([0, 0, True, 4], "four whole numbers"),
        ([-1, 0, 4, 4], "four whole numbers"),
        ([0, 0, 10**30, 4], "four whole numbers"),
        ("\ud800", "four whole numbers"),
        ([0, 0, 0, 4], "at least one pixel"),
        ([13, 0, 4, 4], "reaches out of the images: the model sees 16 x 16 pixels"),
        ([0, 0, 16, 17], "reaches out of the images"),
    ],
)
def test_wrong_regions_are_refused_with_a_message(folder, region, message):
    desk, _ = make_region_desk(folder)
    with serving(desk) as url:
        status, content = send(url, "api/region/start", {"region": region})
        assert status == 400
        assert message in content["error"]
        assert send(url, "api/region")[1]["job"] == {"state": "none"}


def test_one_test_at_a_time_which_can_be_stopped(folder):
    desk, gate = make_region_desk(folder)
    gate.clear()
    with serving(desk) as url:
        assert send(url, "api/region/start", {"region": CORNER})[1]["state"] == "running"
        status, content = send(url, "api/region/start", {"region": CORNER})
        assert status == 400
        assert "already being tested" in content["error"]
        assert send(url, "api/start")[0] == 200  # other requests are answered meanwhile
        assert send(url, "api/region/stop", {})[1]["state"] == "stopped"
        gate.set()
        assert ask(url, CORNER)["state"] == "done"
        assert send(url, "api/region/stop", {})[1]["state"] == "done"


def test_a_folder_without_networks_says_so(folder):
    write_table(folder)
    with serving(make_desk(folder)) as url:
        assert send(url, "api/region")[1]["missing"] == "There is no network here."
        status, content = send(url, "api/region/start", {"region": CORNER})
        assert (status, content["error"]) == (400, "There is no network here.")


def test_problems_of_images_and_networks_are_reported(folder):
    desk, _ = make_region_desk(folder, 24)
    with serving(desk) as url:
        for path in desk.images.paths[:3]:
            path.unlink()
        assert "Measured on a sample of 21 of the 24" in ask(url, CORNER)["answer"]["sample"]
        for path in desk.images.paths[3:10]:
            path.unlink()
        assert "needs at least 20" in ask(url, CORNER)["problem"]
        desk.images = NoImages("They are gone.")
        assert ask(url, CORNER)["problem"] == "No image can be read. They are gone."


def test_an_error_of_a_network_is_reported(folder):
    desk, _ = make_region_desk(folder)
    load = desk.views._load
    desk.views.networks()  # the first ones work

    def load_broken():
        found = load()
        del found["debiased"].model.head
        return found

    desk.views._load = load_broken
    with serving(desk) as url:
        assert "has no attribute 'head'" in ask(url, CORNER)["problem"]


@pytest.mark.parametrize("path", ["api/region/start", "api/region/stop"])
def test_orders_of_other_pages_are_refused(folder, path):
    desk, _ = make_region_desk(folder)
    with serving(desk) as url:
        for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
            assert request(url + path, "POST", {"region": CORNER}, **headers)[0] == 403
        other = url.replace(url.rstrip("/").rpartition("/")[2], "wrong")
        assert request(other + path, "POST", {"region": CORNER})[0] == 403
        assert desk.regions.state() == {"state": "none"}


def test_the_sample_is_bounded_and_follows_the_decisions(folder):
    table = parse_table(write_table(folder, 1000).read_bytes(), folder / "suspects.csv")
    replay = Replay(table)
    replay.states[0] = RowState("exclude", "", "")
    replay.states[1] = RowState("", "cat", "")
    sample = sample_rows(replay, ("cat", "dog"), most=100)
    assert (len(sample.rows), sample.total) == (100, 999)
    assert sum(each.label for each in sample.rows) in (49, 50)
    everything = {each.row: each.label for each in sample_rows(replay, ("cat", "dog"), 5000).rows}
    assert 0 not in everything
    assert everything[1] == 0
    assert sample_rows(replay, ("owl",)).rows == []


def test_a_table_without_classes_of_the_model_is_refused(folder):
    desk, _ = make_region_desk(folder)
    desk.review.replay.table.labels[:] = ["owl"] * 40
    with serving(desk) as url:
        assert "no image of a class of the model" in ask(url, CORNER)["problem"]
