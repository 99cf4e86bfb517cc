"""Mistakes with a finished run: no file of the user is replaced, and no argument is ignored silently."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import unspur
from toys import shapes_set
from unspur import cli
from unspur.errors import DataError, RecipeError, StoreError, UsageError

pytestmark = pytest.mark.filterwarnings("ignore:.* are training images of this run")

BUILDER = "from toys import TinyNet\n\n\ndef build(classes):\n    return TinyNet(classes)\n"
SHORT = {f"{stage}.steps": 4 for stage in ("mine", "pretrain", "adapt", "prune", "finetune")} | {
    "mine.how": "gce"
}


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unspur.data.decoding.readers.available_cores", lambda: 1)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with photos/, a table of them, a builder, and a run on photos/."""
    home = tmp_path_factory.mktemp("home")
    part = shapes_set(seed=1).train
    images = part.take(torch.arange(40)).permute(0, 2, 3, 1).numpy()
    rows = [("path", "label")]
    for i, (image, target) in enumerate(zip(images, part.targets.tolist(), strict=False)):
        path = home / "photos" / ("stands", "lies")[target] / f"{i:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
        rows.append((str(path.relative_to(home)), path.parent.name))
    with (home / "test.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    with (home / "flags.csv").open("w", newline="") as file:
        names = [str(Path(name).relative_to("photos")) for name, _ in rows[1::4]]
        csv.writer(file).writerows([("path", "flag"), *((name, "suspect") for name in names)])
    (home / "model.py").write_text(BUILDER)
    torch.manual_seed(0)
    unspur.debias(
        home / "photos",
        model=f"{home / 'model.py'}:build",
        settings=SHORT,
        suspects=home / "flags.csv",
        device="cpu",
        out=home / "run",
        store=home / "store",
    )
    return home


@pytest.fixture
def run(home: Path, tmp_path: Path) -> Path:
    """Return a copy of the run, with the builder beside it as the original has."""
    shutil.copytree(home, tmp_path / "home")
    return tmp_path / "home" / "run"


# -- files that are not ours ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "out", ["test.csv", "test.json", "test", "run/scores.json", "run/suspects"]
)
def test_an_evaluation_replaces_no_file_but_an_earlier_evaluation(run: Path, out: str) -> None:
    home = run.parent
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    with pytest.raises(StoreError, match=r"exists and is not from an evaluation"):
        unspur.evaluate(run, home / "test.csv", out=home / out, trust=True)
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before
    for _ in range(2):
        unspur.evaluate(run, home / "test.csv", out=home / "scores.csv", trust=True)
    assert (home / "scores.json").exists()


def test_an_evaluation_does_not_begin_if_its_folder_cannot_be_created(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unspur.run_api.open_models", lambda *_, **__: pytest.fail("it begins"))
    with pytest.raises(StoreError, match=r"test\.csv is a file\. Name another folder"):
        unspur.evaluate(run, run.parent / "test.csv", out=run.parent / "test.csv" / "scores")


@pytest.mark.parametrize("out", ["run/scores.json", "test.csv", "photos"])
def test_a_report_replaces_nothing_but_a_page(run: Path, out: str) -> None:
    home = run.parent
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    with pytest.raises(StoreError, match=r"is not a page|is a folder"):
        unspur.report(run, home / out)
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before
    for _ in range(2):
        assert unspur.report(run, home / "new" / "page.html").exists()


def test_the_report_of_a_copied_run_says_how_to_find_the_store(run: Path) -> None:
    copy = run.parent / "deeper" / "run"
    shutil.copytree(run, copy)
    with pytest.warns(UserWarning, match=r"no store at .*deeper/store, .* name its store: --store"):
        unspur.report(copy)
    unspur.report(copy, store=run.parent / "store")  # warnings are errors


def test_the_report_of_an_audit_refuses_what_only_a_run_has(run: Path) -> None:
    audit = run.parent / "audit"
    unspur.audit(
        shapes_set(seed=1), settings={"mine.steps": 4, "pretrain.steps": 4}, device="cpu", out=audit
    )
    with pytest.raises(UsageError, match=r"is an audit; --store is only for runs"):
        unspur.report(audit, store=run.parent / "store")
    done = CliRunner().invoke(cli.app, ["report", str(audit), "--tsne"])
    assert isinstance(done.exception, UsageError)
    assert "--tsne is only for runs" in str(done.exception)


# -- folders that are refused --------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:no audit checked")
@pytest.mark.parametrize("dry", [[], ["--dry-run"]], ids=["run", "dry run"])
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["debias", "photos", "--out", "photos"], "photos is the folder of the images"),
        (["debias", "photos", "--out", "other"], "other contains an audit"),
        (["compare", "photos", "--methods", "erm", "--out", "photos"], "photos is the folder of"),
        (["compare", "photos", "--methods", "jtt,erm", "--out", "tried"], "tried/erm contains an"),
    ],
)
def test_a_folder_is_refused_before_anything_is_trained(
    run: Path, words: list[str], reason: str, dry: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fit(*given: object, **options: object) -> None:
        raise AssertionError("something was trained")

    monkeypatch.chdir(run.parent)
    for folder in ("other", "tried/erm"):
        Path(folder).mkdir(parents=True)
        Path(folder, "audit.json").write_text("{}")
    monkeypatch.setattr("unspur.workflow.debiasing.stages.run_together", fit)
    monkeypatch.setattr("unspur.stages.driver.Run.ask_judge", fit)
    options = ["--set", "mine.how=gce", "--device", "cpu", "-q", *dry]
    done = CliRunner().invoke(cli.app, [*words, *options])
    assert isinstance(done.exception, StoreError), done.exception
    assert reason in str(done.exception)


# -- which model is scored -----------------------------------------------------------------------------


def test_the_ordinary_model_is_not_called_debiased(run: Path) -> None:
    photos = run.parent / "photos"
    for folder in (
        run / "ordinary",
        unspur.export(run / "ordinary", run.parent / "e", trust=True).out,
    ):
        assert unspur.evaluate(folder, photos, trust=True).models == ("ordinary",)
    assert unspur.evaluate(run, photos, trust=True).models == ("ordinary", "debiased")


# -- arguments -----------------------------------------------------------------------------------------


def test_one_format_of_an_export_may_be_a_word(run: Path) -> None:
    done = unspur.export(run, formats="packed", trust=True)
    assert (done.out / "model.packed.safetensors").exists()


def test_groups_are_never_ignored(run: Path) -> None:
    photos, splits = run.parent / "photos", shapes_set(seed=1)
    with pytest.raises(DataError, match="Name the column"):
        unspur.evaluate(run, photos, group=["red"] * 40, trust=True)
    with pytest.raises(DataError, match="Splits have their own groups"):
        unspur.evaluate(run, splits, group=splits.bias["test"], trust=True)


def test_a_row_that_does_not_exist_is_named(run: Path) -> None:
    found = unspur.evaluate(run, run.parent / "photos", trust=True)
    assert found.row("stands", "class").images + found.row("lies", "class").images == 40
    with pytest.raises(UsageError, match=r"no row 'worst_group' of kind 'overall'; it has average"):
        found.row("worst_group")


def test_no_image_files(run: Path) -> None:
    (run.parent / "empty").mkdir()
    for images, reason in (
        ([], "the list of files is empty"),
        (run.parent / "empty", "in .*empty"),
    ):
        with pytest.raises(DataError, match=f"there are no image files.*{reason}"):
            unspur.predict(run, iter(images) if images == [] else images, trust=True)


def test_methods_in_one_word_are_refused() -> None:
    with pytest.raises(RecipeError, match=r"methods is a list of names, .* not 'erm,jtt'"):
        unspur.compare(shapes_set(seed=1), "erm,jtt", device="cpu")


def test_a_file_whose_name_is_not_text_is_printed_byte_for_byte(run: Path) -> None:
    odd = os.fsencode(run.parent) + b"/\xff.png"
    data = next((run.parent / "photos").rglob("*.png")).read_bytes()
    try:
        Path(os.fsdecode(odd)).write_bytes(data)
    except OSError:
        pytest.skip("this file system takes only text as names")
    words = [sys.executable, "-m", "unspur", "predict", str(run), odd, "--trust"]
    path = os.pathsep.join(sys.path)  # the builder imports toys.py
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8:strict", "PYTHONPATH": path}
    done = subprocess.run(words, capture_output=True, check=True, env=environment)
    assert odd in done.stdout
