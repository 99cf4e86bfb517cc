"""`unspur probe`: the models of a run on its own images, the page, and errors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner, Result

import unspur
from toys import TinyNet, save_bars, small_run
from unspur import cli
from unspur.cli.probe_command import join_region
from unspur.errors import UsageError


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with photos of bars, a run on them, and the builder of its network."""
    home = tmp_path_factory.mktemp("home")
    save_bars(home / "photos")
    small_run(home)
    return home


def invoke(home: Path, *arguments: object) -> Result:
    line = ["probe", home / "run", *arguments, "--model", f"{home / 'model.py'}:build"]
    return CliRunner().invoke(cli.app, [*map(str, line), "--device", "cpu"])


def test_a_run_is_probed_on_its_own_images(home: Path) -> None:
    done = invoke(home, "--hide", "border", "--hide", "region", "0,0,3,3", "--hide", "colour")
    assert done.exit_code == 0, done.output
    numbers = json.loads((home / "run" / "probe" / "probe.json").read_text())
    assert numbers["models"] == ["ordinary", "debiased"]
    assert numbers["images"] == 240  # the test split
    assert {each["name"] for each in numbers["changes"]} == {"border", "colour", "region 0,0,3,3"}
    page = (home / "run" / "probe" / "probe.html").read_text()
    assert "Change by change" in page
    assert "probe.html for the pictures" in done.output
    assert numbers["doubt"] == ""
    assert "training images" not in page + done.output
    unspur.load(home / "run", model=TinyNet(2))  # the folder of the run is still valid


def test_training_images_are_not_taken_for_new_ones(home: Path, tmp_path: Path) -> None:
    """Without a test split a run is probed on its training images, where accuracies are too high."""
    photos = home / "photos" / "train"
    done = invoke(home, photos, "--hide", "border", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    doubt = json.loads((tmp_path / "probe.json").read_text())["doubt"]
    assert doubt.startswith(
        "All images are training images of this run. On new images, accuracies are usually"
    )
    assert doubt in " ".join(done.output.split())
    assert doubt in (tmp_path / "probe.html").read_text()


def test_all_changes_are_tried_by_default(home: Path, tmp_path: Path) -> None:
    done = invoke(home, home / "photos", "--out", tmp_path / "all", "--images", "30")
    assert done.exit_code == 0, done.output
    numbers = json.loads((tmp_path / "all" / "probe.json").read_text())
    assert len(numbers["changes"]) >= 5
    assert numbers["images"] == 30


def test_patches_styles_and_functions_are_accepted(home: Path, tmp_path: Path) -> None:
    Image.new("RGB", (2, 2), (255, 0, 0)).save(tmp_path / "patch.png")
    (tmp_path / "mine.py").write_text("def dark(image):\n    return image // 2\n")
    options = ("--paste", tmp_path / "patch.png", "--at", "bottom-left", "--swap-style", "lies")
    own = ("--change", f"{tmp_path / 'mine.py'}:dark", "--out", tmp_path / "out")
    done = invoke(home, *options, *own)
    assert done.exit_code == 0, done.output
    numbers = json.loads((tmp_path / "out" / "probe.json").read_text())
    assert {c["name"] for c in numbers["changes"]} == {"paste patch.png", "style of lies", "dark"}
    assert "no control" in done.output


def test_invalid_options_are_errors(home: Path, tmp_path: Path) -> None:
    for options, message in (
        (("--hide", "snow"), "there is no 'snow' to hide"),
        (("--hide", "region", "0,0,99,99"), "8 x 8 pixels"),
        (("--at", "centre"), "--paste FILE"),
        (("--swap-style", "cat"), "no class 'cat'"),
        (("--change", "nothing.py:dark"), "no function"),
    ):
        done = invoke(home, *options)
        assert isinstance(done.exception, UsageError), done.output
        assert message in str(done.exception)


def test_missing_images_of_a_run_are_an_error(home: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(home / "run", tmp_path / "run")
    facts = json.loads((moved / "run.json").read_text())
    with pytest.raises(unspur.UnspurError, match="there is no folder"):
        unspur.probe(moved, change="border", network=TinyNet(2))
    assert facts["source"]


def test_the_numbers_of_a_region_need_no_quotes() -> None:
    assert join_region(["RUN", "--hide", "region", "0,0,2,2"])[-1] == "region 0,0,2,2"
    assert join_region(["RUN", "--hide=region", "0,0,2,2"])[-1] == "--hide=region 0,0,2,2"
    assert join_region(["RUN", "0,0,2,2"]) == ["RUN", "0,0,2,2"]
