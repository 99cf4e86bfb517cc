"""predict, evaluate, export and report, from Python and the shell, also for a run made with a module."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset
from typer.testing import CliRunner, Result

import unspur
from toys import SMALL, TinyNet, shapes_set
from unspur import cli, recipes
from unspur.data.custom.name_patterns import NamePattern
from unspur.data.splits import Split
from unspur.deploy.check_images import check_images
from unspur.errors import DataError, ModelError, RecipeError
from unspur.runs.evaluation import AccuracyShare, Evaluation, EvaluationRow
from unspur.runs.evaluation_files import as_csv
from unspur.runs.intervals import bootstrap, wilson

MODEL = "from toys import TinyNet\n\n\ndef build(classes):\n    return TinyNet(classes)\n"
COLOURS = ("red", "blue")


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unspur.data.decoding.readers.available_cores", lambda: 1)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write bars to class folders of train/ and test/, with the colour in the file name, and tables."""
    root = tmp_path_factory.mktemp("photos")
    splits = shapes_set(seed=1)
    rows = []
    for split in ("train", "test"):
        part = splits.parts()[split]
        images = part.take(torch.arange(len(part))).permute(0, 2, 3, 1).numpy()
        for i, (image, target) in enumerate(zip(images, part.targets.tolist(), strict=True)):
            label, colour = splits.classes[target], COLOURS[int(splits.bias[split][i])]
            path = root / split / label / f"{i:03d}_{label}_{colour}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(path)
            rows.append((str(path.relative_to(root)), label, split, colour))
    table(root / "all.csv", rows)
    table(root / "test.csv", [row for row in rows if row[2] == "test"])
    (root / "model.py").write_text(MODEL)
    return root


def table(path: Path, rows: list[tuple[str, str, str, str]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("path", "label", "split", "colour"), *rows])


@pytest.fixture(scope="module")
def run(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Debias a module on the folder; return the run, which has an ordinary and a debiased model."""
    home = tmp_path_factory.mktemp("home")
    torch.manual_seed(0)
    unspur.debias(
        photos,
        model=TinyNet(2),
        settings=recipes.parse_changes(SMALL),
        anyway=True,
        bias="*_{group}.png",
        device="cpu",
        out=home / "run",
        store=home / "store",
    )
    return home / "run"


def invoke(*arguments: object) -> Result:
    done = CliRunner().invoke(cli.app, [str(each) for each in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done


def right(run: Path, photos: Path) -> float:
    found = unspur.predict(run, photos / "test", model=TinyNet(2))
    return float(np.mean([each.label == each.path.parent.name for each in found]))


# -- a run made with a module -------------------------------------------------------------------------


def test_predict_needs_the_module_again(run: Path, photos: Path) -> None:
    with pytest.raises(ModelError, match=r"made with an nn\.Module"):
        unspur.predict(run, photos / "test")
    by_name = unspur.predict(run, photos / "test", model=f"{photos / 'model.py'}:build")
    assert by_name == unspur.predict(run, photos / "test", model=TinyNet(2))
    assert len(by_name) == 240
    assert {each.label for each in by_name} <= {"stands", "lies"}


def test_the_weights_of_a_passed_module_are_not_changed(run: Path, photos: Path) -> None:
    mine = TinyNet(2)
    before = {name: t.clone() for name, t in mine.state_dict().items()}
    unspur.evaluate(run, photos, model=mine)
    assert all(torch.equal(t, before[name]) for name, t in mine.state_dict().items())


def test_commands_take_a_builder(run: Path, photos: Path, tmp_path: Path) -> None:
    builder = f"{photos / 'model.py'}:build"
    rows = list(
        csv.DictReader(
            invoke("predict", run, photos / "test", "--model", builder).stdout.splitlines()
        )
    )
    assert len(rows) == 240
    shown = invoke("evaluate", run, photos / "test", "--model", builder).stdout
    assert f"{100 * right(run, photos):.1f} %" in shown
    done = invoke("export", run, "--out", tmp_path / "out", "--model", builder)
    assert (tmp_path / "out" / "model.safetensors").exists()
    assert "noise" not in done.output  # the run's own images are found again


def test_export_in_python(run: Path, photos: Path, tmp_path: Path) -> None:
    done = unspur.export(run, tmp_path / "out", formats=("packed",), model=TinyNet(2))
    assert done.out == tmp_path / "out"
    assert done.differences["read back"] == 0
    with pytest.raises(RecipeError, match="no format 'onx'"):
        unspur.export(run, tmp_path / "other", formats=("onx",), model=TinyNet(2))


def test_export_finds_the_data_of_a_run(run: Path, photos: Path, tmp_path: Path) -> None:
    found = check_images(run, None, None, model=TinyNet(2))
    assert (found.missing, found.images.shape) == ("", (64, 3, 8, 8))
    moved = shutil.copytree(run, tmp_path / "elsewhere" / "run")
    found = check_images(moved, None, None, model=TinyNet(2))
    assert "there is no folder" in found.missing


def test_report_in_python(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    path = unspur.report(run, tmp_path / "page.html")
    assert "<html" in path.read_text()


# -- evaluate -----------------------------------------------------------------------------------------


def test_any_labelled_folder_or_table(run: Path, photos: Path, tmp_path: Path) -> None:
    """Tries class folders, a folder with only test/, a table of test rows, and one without splits."""
    only_test = tmp_path / "only"
    shutil.copytree(photos / "test", only_test / "test")
    plain = photos / "plain.csv"
    rows = list(csv.reader((photos / "test.csv").read_text().splitlines()))
    with plain.open("w", newline="") as file:
        csv.writer(file).writerows([row[:2] for row in rows])
    expected = right(run, photos)
    for source in (photos, photos / "test", only_test, photos / "test.csv", plain):
        found = unspur.evaluate(run, source, model=TinyNet(2))
        assert found.images == 240
        assert found.row("average").accuracy["debiased"].value == pytest.approx(expected)


def test_groups_from_a_column_or_from_names(run: Path, photos: Path) -> None:
    by_column = unspur.evaluate(run, photos / "test.csv", model=TinyNet(2), group="colour")
    by_name = unspur.evaluate(
        run, photos / "test", model=TinyNet(2), pattern="*_{class}_{group}.png"
    )
    assert by_column.rows == by_name.rows
    groups = [row for row in by_column.rows if row.kind == "group"]
    assert sorted(row.name for row in groups) == sorted(
        f"{label}, {colour}" for label in ("stands", "lies") for colour in COLOURS
    )
    assert sum(row.images for row in groups) == 240
    values = [row.accuracy["debiased"].value for row in groups]
    assert by_column.row("unbiased").accuracy["debiased"].value == pytest.approx(np.mean(values))
    worst = by_column.row("worst group").accuracy["debiased"]
    assert worst.value == min(values)
    named = next(row for row in groups if row.name == worst.note)
    assert worst.interval == named.accuracy["debiased"].interval
    assert worst.note == next(r.name for r in groups if r.accuracy["debiased"].value == min(values))


def test_a_flat_folder_with_classes_in_the_names(run: Path, photos: Path, tmp_path: Path) -> None:
    for path in (photos / "test").rglob("*.png"):
        shutil.copy(path, tmp_path / path.name)
    found = unspur.evaluate(run, tmp_path, model=TinyNet(2), pattern="*_{class}_*.png")
    assert found.row("average").accuracy["debiased"].value == pytest.approx(right(run, photos))


def test_conflicting_groups_follow_from_the_training_rows(run: Path, photos: Path) -> None:
    found = unspur.evaluate(run, photos / "all.csv", model=TinyNet(2), group="colour")
    scores = json.loads((run / "scores.json").read_text())["debiased"]
    for name in ("unbiased", "aligned", "conflicting", "worst_group", "average"):
        value = found.row(name.replace("_", " ")).accuracy["debiased"].value
        assert value == pytest.approx(scores[name])


def test_the_ordinary_model_is_scored_too(run: Path, photos: Path) -> None:
    found = unspur.evaluate(run, photos / "test", model=TinyNet(2))
    assert found.models == ("ordinary", "debiased")
    row, scores = found.row("average"), json.loads((run / "scores.json").read_text())
    for name in found.models:
        assert row.accuracy[name].value == pytest.approx(scores[name]["average"])
    gain, (low, high) = row.gain or (0, (0, 0))
    assert gain == pytest.approx(scores["debiased"]["average"] - scores["ordinary"]["average"])
    assert low <= gain <= high


def test_the_command_writes_numbers_and_a_table(run: Path, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "scores.json"
    done = invoke(
        *("evaluate", run, photos / "test.csv", "--group", "colour", "--out", out),
        *("--model", f"{photos / 'model.py'}:build", "--device", "cpu"),
    )
    numbers = json.loads(out.read_text())
    assert numbers["models"] == ["ordinary", "debiased"]
    worst = next(row for row in numbers["rows"] if row["name"] == "worst group")
    low, high = worst["debiased"]["interval"]
    assert low <= worst["debiased"]["accuracy"] <= high
    rows = list(csv.DictReader(out.with_suffix(".csv").read_text().splitlines()))
    assert {row["kind"] for row in rows} == {"overall", "class", "group"}
    assert len(rows) == 2 * len(numbers["rows"])
    assert "| class | images | ordinary | debiased |" in out.with_suffix(".md").read_text()
    assert "worst group" in done.stdout


def test_unknown_classes_patterns_and_columns(run: Path, photos: Path, tmp_path: Path) -> None:
    def evaluate(source: Path, **options: str) -> None:
        unspur.evaluate(run, source, model=TinyNet(2), **options)  # type: ignore[arg-type]

    shutil.copytree(photos / "test" / "lies", tmp_path / "sits")
    with pytest.raises(DataError, match="'sits' is none of the model's classes"):
        evaluate(tmp_path)
    with pytest.raises(
        DataError, match=r"has no column .shade'.*it has path, label, split, colour"
    ):
        evaluate(photos / "test.csv", group="shade")
    with pytest.raises(DataError, match="is a folder, which has no column 'colour'"):
        evaluate(photos / "test", group="colour")
    with pytest.raises(DataError, match="does not fit 240 of 240 file names"):
        evaluate(photos / "test", pattern="{group}-*.png")


def test_datasets_and_groups_in_python(run: Path) -> None:
    splits = shapes_set(seed=1)
    test = splits.test
    assert isinstance(test, Split)
    dataset = TensorDataset(test.images, 1 - test.targets)  # the model's classes are sorted by name
    words = [COLOURS[int(number)] for number in splits.bias["test"]]
    found = unspur.evaluate(run, dataset, model=TinyNet(2), group=words)
    by_name = unspur.evaluate(run, splits, model=TinyNet(2))
    for name in ("average", "unbiased", "worst group"):
        one, other = found.row(name).accuracy, by_name.row(name).accuracy
        assert one["debiased"].value == pytest.approx(other["debiased"].value)
    with pytest.raises(DataError, match="neither columns nor file names"):
        unspur.evaluate(run, dataset, model=TinyNet(2), group="colour")
    with pytest.raises(DataError, match=r"hf:x has no file names to read"):
        unspur.evaluate(run, "hf:x", model=TinyNet(2), pattern="*_{group}.png")
    with pytest.raises(DataError, match="240 images need as many groups, not 3"):
        unspur.evaluate(run, dataset, model=TinyNet(2), group=[0, 1, 1])


def test_a_dataset_that_names_its_classes_gives_the_run_those_names(tmp_path: Path) -> None:
    splits = shapes_set(seed=1)
    assert isinstance(splits.train, Split)
    dataset = TensorDataset(splits.train.images, splits.train.targets)
    dataset.classes = ["stands", "lies"]  # type: ignore[attr-defined]
    settings = {**recipes.parse_changes(SMALL), "plan": "erm"}
    torch.manual_seed(0)
    unspur.debias(dataset, model=TinyNet(2), settings=settings, out=tmp_path / "run")
    assert unspur.load(tmp_path / "run", TinyNet(2)).classes == ("stands", "lies")


# -- the parts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("*_{class}_{group}.png", "x/1_2_cat_red.png", {"class": "cat", "group": "red"}),
        ("{group}/*.png", "set/night/1.png", {"group": "night"}),
        ("{group}_?.*", "a_1.jpeg", {"group": "a"}),
        ("*_{group}.png", "plain.png", None),
        ("a+{group}.png", "a+b.png", {"group": "b"}),
    ],
)
def test_name_patterns(pattern: str, path: str, found: dict[str, str] | None) -> None:
    assert NamePattern(pattern).read(Path(path)) == found


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("*.png", "reads nothing"), ("{colour}.png", "unknown field"), ("{group}{group}", "twice")],
)
def test_patterns_that_are_refused(pattern: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        NamePattern(pattern)


def test_a_wilson_interval_has_a_width_if_all_are_right() -> None:
    low, high = wilson(20, 20)
    assert high == 1
    assert low == pytest.approx(20 / (20 + 1.96**2))
    assert wilson(50, 100) == pytest.approx((0.4038, 0.5962), abs=1e-4)


def test_groups_have_intervals_without_a_known_conflict() -> None:
    g = torch.Generator().manual_seed(0)
    tensors = {
        name: torch.randint(2, (200,), generator=g) for name in ("targets", "bias", "predicted.a")
    }
    with_conflict = bootstrap({**tensors, "conflict": tensors["bias"] == 1})
    found = bootstrap(tensors)
    assert found.accuracy["a"].keys() == {"average", "unbiased", "worst_group"}
    assert found.accuracy["a"].items() <= with_conflict.accuracy["a"].items()


def test_a_class_that_is_a_formula_is_written_as_text() -> None:
    share = AccuracyShare(0.5, (0.2, 0.8))
    row = EvaluationRow("class", "=1+1", 2, {"model": share})
    assert ",'=1+1," in as_csv(Evaluation("x", "test", 2, ("model",), (row,)))


def test_loading_leaves_the_given_network_as_it_is(tmp_path):
    """Two models of one run are loaded with one module; neither is the module itself."""
    model = TinyNet()
    steps = {f"{stage}.steps": 4 for stage in ("mine", "pretrain", "adapt", "prune", "finetune")}
    settings = {**steps, "mine.how": "oracle", "prune.unit": "weight"}
    unspur.debias(
        shapes_set(),
        model=model,
        settings=settings,
        anyway=True,
        out=tmp_path / "run",
        store=tmp_path / "store",
    )
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    debiased = unspur.load(tmp_path / "run", model=model)
    ordinary = unspur.load(tmp_path / "run" / "ordinary", model=model)
    assert any(
        not torch.equal(one, other)
        for one, other in zip(debiased.parameters(), ordinary.parameters(), strict=True)
    )
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])
