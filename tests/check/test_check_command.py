"""`unspur check`: exit codes, output files, and that unchanged data are not audited again."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner, Result

from audits import tinted
from toys import small_run
from unspur import cli
from unspur.audit import auditor
from unspur.check import checking
from unspur.check.alarms import Alarm, CheckOutcome
from unspur.check.baseline import CheckSettings, read_baseline, write_baseline
from unspur.cli import check_command
from unspur.data.splits import Splits
from unspur.errors import StoreError, UnspurError, UsageError

STEPS = "20"


def save(splits: Splits, folder: Path, colours: bool = False) -> Path:
    """Write images as files; with `colours`, into train/ and test/ with groups in their names."""
    images = splits.train.take(torch.arange(len(splits.train))).permute(0, 2, 3, 1).numpy()
    for i, (image, target) in enumerate(zip(images, splits.train.targets.tolist(), strict=True)):
        tint = ("red", "blue")[int(splits.bias["train"][i])] if "train" in splits.bias else "any"
        split = ("train", "test")[i % 3 == 0] if colours else ""
        path = folder / split / splits.classes[target] / f"{i:03d}_{tint}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with images without a shortcut, and the baseline of their check."""
    home = tmp_path_factory.mktemp("home")
    save(tinted("null", n=200), home / "photos")
    done = invoke(home, home / "photos")
    assert done.exit_code == 0, done.output
    assert "Keep it under version control" in done.output
    return home


def invoke(home: Path, *arguments: object, baseline: str = "check.json") -> Result:
    line = ["check", *arguments, "--baseline", home / baseline, "--store", home / "store"]
    line += ["--device", "cpu", "--steps", STEPS, "--quiet"]
    return CliRunner().invoke(cli.app, [str(each) for each in line])


def copy(home: Path, tmp_path: Path) -> Path:
    return save(tinted("null", n=200), tmp_path / home.name)


def test_unchanged_data_are_not_audited_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("the data were audited")

    monkeypatch.setattr(auditor, "audit_together", refuse)
    monkeypatch.setattr(checking.workflow, "open_audit", refuse)
    before = (home / "check.json").read_bytes()
    done = invoke(home, home / "photos")
    assert done.exit_code == 0, done.output
    assert "Nothing has changed" in done.output
    assert (home / "check.json").read_bytes() == before


def test_a_changed_file_or_label_is_a_change(home: Path, tmp_path: Path) -> None:
    groups = checking.USUAL_GROUPS
    first = checking.data_digest(str(home / "photos"), groups)
    folder = copy(home, tmp_path)
    assert (
        checking.data_digest(str(folder), groups) == first
    )  # independent of the place of the folder
    some = next(folder.glob("stands/*.png"))
    moved = some.rename(folder / "lies" / some.name)
    assert checking.data_digest(str(folder), groups) != first
    moved.rename(some)
    assert checking.data_digest(str(folder), groups) == first
    Image.new("RGB", (8, 8)).save(some)
    assert checking.data_digest(str(folder), groups) != first


def test_changed_data_without_a_shortcut_pass(home: Path, tmp_path: Path) -> None:
    folder = copy(home, tmp_path)
    next(folder.glob("stands/*.png")).unlink()
    done = invoke(home, folder, "--junit", tmp_path / "out" / "junit.xml")
    assert done.exit_code == 0, done.output
    assert "Passed" in done.output
    suite = ET.parse(tmp_path / "out" / "junit.xml").getroot()
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "1")


def test_a_shortcut_is_an_alarm(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copy(home, tmp_path)
    next(folder.glob("stands/*.png")).unlink()
    real = checking.summarise
    monkeypatch.setattr(
        checking,
        "summarise",
        lambda *given: real(*given).model_copy(update={"verdict": "shortcut", "text": "It is red"}),
    )
    summary = tmp_path / "step.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    done = invoke(home, folder)
    assert done.exit_code == 1, done.output
    assert done.output.startswith(
        "::error title=unspur check%3A no new shortcut in the data::It is red"
    )
    assert "**failed**: It is red" in summary.read_text()
    text = invoke(home, folder, "--format", "text", "--summary", tmp_path / "mine.md")
    assert text.output.startswith("FAILED: It is red")
    assert (tmp_path / "mine.md").read_text() == summary.read_text()
    accepted = invoke(home, folder, "--update", baseline="other.json")
    assert accepted.exit_code == 0
    assert "the baseline may have a shortcut. It is red.\n" in accepted.output
    assert invoke(home, folder, baseline="other.json").exit_code == 0


def test_a_check_that_fails_to_run_ends_with_exit_code_2(home: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{}")
    for arguments, kind in (
        ((tmp_path / "nowhere",), UnspurError),
        ((home / "photos", "--steps", "61"), UsageError),
        ((home / "photos", "--run", tmp_path), UsageError),
        ((home / "photos", "--baseline", tmp_path / "bad.json"), StoreError),
    ):
        line = ["check", "--baseline", home / "check.json", "--device", "cpu", "--steps", STEPS]
        done = CliRunner().invoke(cli.app, [*map(str, line), *map(str, arguments)])
        assert isinstance(done.exception, kind), done.output
        assert done.exception.exit_code == 2
    code = "from unspur.cli import main; main()"
    line = [sys.executable, "-c", code, "check", str(tmp_path / "nowhere")]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert "there is no folder" in done.stderr


# A model


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with images that have the tint in their names, and a run on them."""
    home = tmp_path_factory.mktemp("scored")
    save(tinted("shortcut", n=240, odd=40), home / "photos", colours=True)
    small_run(home)
    return home


def test_a_model_is_scored_on_known_groups(scored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("--run", scored / "run", "--model", f"{scored / 'model.py'}:build")
    options += ("--pattern", "*_{group}.png")
    assert invoke(scored, scored / "photos", *options).exit_code == 0
    known = read_baseline(scored / "check.json")
    assert known is not None
    assert known.model is not None
    names = [group.name for group in known.model.groups]
    assert names[0] == checking.CONFLICTING
    assert "stands, red" in names
    assert sum(group.images for group in known.model.groups[1:]) == 80  # the test split
    with monkeypatch.context() as patch:
        patch.setattr(checking, "score_models", lambda *given: pytest.fail("the model was scored"))
        idle = invoke(scored, scored / "photos", *options)
    assert "Nothing has changed" in idle.output
    none = [group.model_copy(update={"counted": 0}) for group in known.model.groups[1:]]
    monkeypatch.setattr(checking, "count_right", lambda *given: none)
    other = known.model.model_copy(update={"digest": "0" * 64})
    write_baseline(scored / "check.json", known.model_copy(update={"model": other}))
    done = invoke(scored, scored / "photos", *options)
    assert done.exit_code == 1, done.output
    assert "FAILED: The model gets 0 of" in done.output


def test_the_command_that_accepts_a_change_has_the_same_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["unspur", "check", "my data", "--size", "16"])
    alarm = Alarm("suspects", "more suspects")
    result = checking.CheckResult(CheckOutcome((alarm,), (), ()))
    last = check_command._last_line(result, Path("check.json"))
    assert last == "To accept this change: unspur check 'my data' --size 16 --update"


def test_settings_that_are_not_chosen_are_called_defaults() -> None:
    said = checking._settings_text(CheckSettings(seed=0, steps=60, size=0))
    assert said == "--seed 0, --steps 60, the default --size"
