"""`unspur debias` on a user's own images, and the settings it chooses."""

from __future__ import annotations

import csv
import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner, Result

import unspur
from toys import SMALL, TinyNet, context, save_bars, shapes_set, without_valid
from unspur import cli, recipes, stages
from unspur.data import custom
from unspur.data.csv_text import unescape_cell
from unspur.data.custom.assembly import UserImages
from unspur.data.decoding.files import Files
from unspur.errors import DataError, ModelError, RecipeError
from unspur.models import builder
from unspur.recipes import budget
from unspur.report.terminal import summary
from unspur.runs.result_folder import save_skipped
from unspur.stages.place import find_place
from unspur.workflow import open_debias

MODEL = """
from toys import TinyNet

def build(classes):
    return TinyNet(classes)
"""


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unspur.data.decoding.readers.available_cores", lambda: 1)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write bars to class folders, for training and test."""
    root = tmp_path_factory.mktemp("photos")
    save_bars(root)
    (root / "model.py").write_text(MODEL)
    return root


def invoke(*arguments: str) -> Result:
    done = CliRunner().invoke(cli.app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done


@pytest.fixture(scope="module")
def done(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    home = tmp_path_factory.mktemp("home")
    (photos / "train" / "lies" / "bad.png").touch()
    changes = [word for change in SMALL for word in ("--set", change)]
    options = ["--model", f"{photos / 'model.py'}:build", "--device", "cpu", "-q"]
    with pytest.warns(UserWarning, match="bad.png"):
        made = invoke(
            *("debias", str(photos), "--out", str(home / "out"), "--store", str(home / "store")),
            "--anyway",
            *options,
            *changes,
        )
    return made, home / "out"


def test_debias_writes_a_model_and_prints_its_findings(done: tuple[Result, Path]) -> None:
    result, out = done
    assert "photos" in result.output
    assert "about" in result.output  # the estimate, before it starts
    scores = json.loads((out / "scores.json").read_text())
    unseen = scores["unseen"]
    assert unseen["split"] == "training samples kept out of training"
    counts = unseen["counts"]
    assert counts["suspects"] + counts["others"] == counts["all"] > 10
    for model in ("ordinary", "debiased"):
        weighted = sum(counts[part] * unseen[model][part] for part in ("suspects", "others"))
        assert weighted / counts["all"] == pytest.approx(unseen[model]["all"])
    said = " ".join(result.output.split())
    assert "The average is on the test split." in said
    gain = scores["gain"]
    assert gain["split"] == "test"
    assert f"On {gain['suspects']['count']} test images that contradict the shortcut" in said
    assert "Neither model was trained on the images of this comparison." in said
    assert next(iter(scores)) == "gain"


def test_skipped_images_are_listed_in_the_folder(done: tuple[Result, Path]) -> None:
    with (done[1] / "skipped.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["path", "reason"]
    assert [row[0] for row in rows[1:]] == ["train/lies/bad.png"]


def test_predict_and_evaluate_take_the_same_images(done: tuple[Result, Path], photos: Path) -> None:
    out = done[1]
    test = photos / "test"
    said = invoke("predict", str(out), str(test), "--trust").stdout
    rows = list(csv.DictReader(said.splitlines()))
    right = np.mean([Path(row["path"]).parent.name == row["class"] for row in rows])
    shown = invoke("evaluate", str(out), str(test), "--trust").stdout
    assert f"{100 * right:.1f} %" in shown
    scores = json.loads((out / "scores.json").read_text())
    assert scores["debiased"]["average"] == pytest.approx(right)
    for command in ("predict", "evaluate"):
        with pytest.raises(ModelError, match=r"would run that file.*--trust"):
            invoke(command, str(out), str(test))


def test_the_ordinary_model_is_evaluated_and_exported(
    done: tuple[Result, Path], photos: Path, tmp_path: Path
) -> None:
    out = done[1]
    shown = invoke("evaluate", str(out / "ordinary"), str(photos / "test"), "--trust").stdout
    scores = json.loads((out / "scores.json").read_text())
    assert f"{100 * scores['ordinary']['average']:.1f} %" in shown
    export = ("--out", str(tmp_path / "export"), "--images", str(photos / "test"), "--trust")
    invoke("export", str(out / "ordinary"), *export)
    assert "the model before" in (tmp_path / "export/README.md").read_text()
    invoke("report", str(out / "ordinary"), "--out", str(tmp_path / "page.html"))


def test_a_dry_run_runs_nothing(photos: Path, tmp_path: Path) -> None:
    (photos / "train" / "lies" / "bad.png").unlink(missing_ok=True)
    out = invoke(
        *("debias", str(photos / "train"), "--out", str(tmp_path / "out"), "--dry-run"),
        *("--store", str(tmp_path / "store"), "--device", "cpu", "--size", "8"),
        *("--model", f"{photos / 'model.py'}:build"),
    ).output
    assert "nothing was run" in out
    assert "on cpu" in out
    assert not (tmp_path / "out").exists()


# The settings


@pytest.mark.parametrize(
    ("device", "images", "steps", "batch"),
    [
        ("cpu", 100, 300, 25),
        ("cpu", 2000, 625, 64),
        ("cpu", 100_000, 1000, 64),
        ("cuda", 100, 500, 25),
        ("cuda", 5252, 4923, 64),
        ("cuda", 100_000, 10_000, 256),
        ("cpu", 4, 300, 2),
    ],
)
def test_the_budget(device: str, images: int, steps: int, batch: int) -> None:
    made = budget.settings(images, torch.device(device), name="x", model="resnet18", init="w.pth")
    assert (made.mine.steps, made.pretrain.steps) == (steps, steps)
    assert made.adapt.steps == steps
    assert (made.prune.steps, made.finetune.steps) == (min(steps // 2, 2000), min(steps, 3000))
    assert (made.plan, made.prune.unit, made.prune.keep) == ("unspur", "channel", 0.5)
    assert {made.mine.batch, made.pretrain.batch, made.prune.batch, made.finetune.batch} == {batch}
    assert (made.model.name, made.model.init) == ("resnet18", "w.pth")
    travel = (
        made.prune.steps * made.prune.rate
    )  # Adam's: a mask can fall from 1.5 far below the cut
    assert travel >= 14
    assert made.prune.rate == pytest.approx(max(0.01, 15 / made.prune.steps))
    assert budget.bounds_for(torch.device(device)).pixels == (96 if device == "cpu" else 128)


def test_a_preference_changes_how_often_suspects_are_seen(photos: Path, tmp_path: Path) -> None:
    preset = budget.settings(500, torch.device("cpu"), name="x", model="resnet18")
    shares = {}
    for prefer in budget.SHARES:
        changed = recipes.change(preset, budget.preference(prefer))
        shares[prefer] = changed.finetune.share
        assert changed.prune.share == changed.finetune.share
    assert shares["aligned"] < shares["balanced"] < shares["conflicting"]
    wrong = CliRunner().invoke(
        cli.app, ["debias", str(photos / "train"), "--out", "x", "--prefer", "both"]
    )
    assert isinstance(wrong.exception, RecipeError)
    assert "choose one of balanced, aligned, conflicting" in str(wrong.exception)


def test_a_preference_reaches_the_run(photos: Path, tmp_path: Path) -> None:
    short = {f"{stage}.steps": 2 for stage in ("mine", "pretrain", "adapt", "prune", "finetune")}
    unspur.debias(
        photos / "train", model=TinyNet(), settings=short, prefer="aligned", anyway=True,
        device="cpu", out=tmp_path / "out", store=tmp_path / "store",
    )  # fmt: skip
    saved = recipes.load(str(tmp_path / "out" / "recipe.toml"))
    assert (saved.finetune.share, saved.prune.share) == (0.25, 0.25)
    with pytest.raises(RecipeError, match="prefer='aligned'"):
        unspur.debias(photos / "train", settings=saved, prefer="aligned", device="cpu")


@pytest.mark.parametrize(("init", "pretrained"), [("w.pth", False), ("", True)])
def test_pretrained_weights_have_a_smaller_learning_rate(init: str, pretrained: bool) -> None:
    def chosen(**start: Any) -> Any:
        return budget.settings(2000, torch.device("cpu"), name="x", model="resnet18", **start)

    scratch = chosen()
    gentle = chosen(init=init, pretrained=pretrained, mean=(0.5,), std=(0.25,))
    assert (scratch.start.warmup, scratch.start.head_first) == (0, 0)
    assert (gentle.start.warmup, gentle.start.head_first) == (31, 62)
    assert gentle.start.pretrained == pretrained
    for table in ("mine", "pretrain", "finetune"):
        assert getattr(gentle, table).rate == 1e-4 < getattr(scratch, table).rate
    assert gentle.prune == scratch.prune
    assert (gentle.data.mean, gentle.data.std) == ((0.5,), (0.25,))
    assert gentle.pretrain.steps == scratch.pretrain.steps


def test_one_flag_starts_from_published_weights(photos: Path, tmp_path: Path) -> None:
    (photos / "train" / "lies" / "bad.png").unlink(missing_ok=True)
    weights = tmp_path / "weights.pth"
    torch.save(builder("mobilenet_v2", 1000, {"width": 0.25}).build(3).state_dict(), weights)
    short = {"mine.steps=2", "pretrain.steps=4", "prune.steps=2", "finetune.steps=2"}
    short |= {"model.options={width = 0.25}", "start.head_first=2", "start.warmup=1"}
    invoke(
        *("debias", str(photos / "train"), "--out", str(tmp_path / "out"), "--anyway", "-q"),
        *("--store", str(tmp_path / "store"), "--device", "cpu", "--size", "32"),
        *("--model", "mobilenet_v2", "--pretrained", "--init", str(weights)),
        *(word for change in sorted(short) for word in ("--set", change)),
    )
    about = json.loads((tmp_path / "out" / "model.json").read_text())
    assert about["input"]["shape"] == [3, 32, 32]  # the images have 8 pixels
    assert about["input"]["mean"] == [0.485, 0.456, 0.406]
    recipe = recipes.load(str(tmp_path / "out" / "recipe.toml"))
    assert recipe.start.pretrained
    assert (recipe.start.head_first, recipe.pretrain.rate) == (2, 1e-4)
    assert len(invoke("predict", str(tmp_path / "out"), str(photos / "test")).stdout) > 0


def test_a_module_with_pretrained_weights_has_a_smaller_learning_rate(
    photos: Path, tmp_path: Path
) -> None:
    (photos / "train" / "lies" / "bad.png").unlink(missing_ok=True)
    place = find_place("cpu", tmp_path, lambda stage: nullcontext())
    images = UserImages(photos / "train")
    context = open_debias(images, place, model=TinyNet(), pretrained=True).context
    assert context.recipe.pretrain.rate == 1e-4
    assert context.splits.train.shape == (3, 8, 8)  # the size that the weights expect is not known
    with pytest.raises(ModelError, match="no published weights of convnet"):
        open_debias(images, place, model="convnet", pretrained=True)


def test_skipped_images_of_an_earlier_run_are_not_listed(tmp_path: Path) -> None:
    splits = shapes_set(samples=24)
    save_skipped(replace(splits, skipped={"a.png": "damaged"}), tmp_path)
    assert (tmp_path / "skipped.csv").exists()
    save_skipped(splits, tmp_path)
    assert not (tmp_path / "skipped.csv").exists()


def test_skipped_names_that_are_formulas_are_written_as_text(tmp_path: Path) -> None:
    skipped = {"=cmd|' /C calc'!A0.png": "-1", "a.png": "damaged"}
    save_skipped(replace(shapes_set(samples=24), skipped=skipped), tmp_path)
    with (tmp_path / "skipped.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == ["path", "reason"]
    assert not [cell for row in rows for cell in row if cell[0] in "=+-@"]
    assert {unescape_cell(path): unescape_cell(reason) for path, reason in rows} == skipped


# In Python


def test_debias_takes_a_folder_or_files(photos: Path) -> None:
    (photos / "train" / "lies" / "bad.png").unlink(missing_ok=True)
    torch.manual_seed(0)
    model = TinyNet()
    settings = dict(change.split("=", 1) for change in SMALL)
    settings = {
        key: json.loads(text) if text[0] in "[0123456789" else text
        for key, text in settings.items()
    }
    by_path = unspur.debias(photos, model=model, settings=settings, device="cpu", anyway=True)
    splits = custom.load(photos)
    by_splits = unspur.debias(splits, model=model, settings=settings, device="cpu", anyway=True)
    assert by_path.scores == by_splits.scores
    paths = tuple(photos / name for name in splits.train.names or ())
    lazy = Files(paths, splits.train.targets, (8, 8))
    streamed = unspur.debias(
        lazy,
        model=model,
        settings=settings,
        device="cpu",
        test=splits.test,
        classes=splits.classes,
        anyway=True,
    )
    assert streamed.scores == by_path.scores
    with pytest.raises(DataError, match="has its own valid"):
        unspur.debias(splits, splits.test, model=model, device="cpu", anyway=True)


# Scores without bias labels


def test_unseen_samples_are_scored_by_suspicion(tmp_path: Path) -> None:
    for splits in (shapes_set(seed=1), without_valid(shapes_set(seed=1))):
        run = context(tmp_path, splits=splits)
        made, scores = stages.run(run)
        unseen = scores.facts["unseen"]
        split, among = run.unseen or ("", torch.zeros(0))
        conflict = made["mine"].tensors[f"{split}.conflict"][among]
        assert unseen["counts"]["suspects"] == int(conflict.sum())
        model = run.network(made["pretrain"].tensors).eval()
        part = splits.parts()[split]
        where = among.nonzero().flatten()
        with torch.no_grad():
            predicted = model(run.preprocess(part.take(where))).argmax(1)
        right = predicted == part.targets[where]
        assert unseen["ordinary"]["suspects"] == pytest.approx(
            float(right[conflict].double().mean())
        )
        assert unseen["ordinary"]["others"] == pytest.approx(
            float(right[~conflict].double().mean())
        )
        assert not any("suspects of the miner" in line for line in summary(scores.facts))


@pytest.mark.filterwarnings("ignore:.*fewer than 10")
def test_scores_on_training_images_are_named_so(tmp_path: Path) -> None:
    for n, name in enumerate("aabb"):
        path = tmp_path / "photos" / name / f"{n}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (60 * n, 0, 0)).save(path)
    (tmp_path / "model.py").write_text(MODEL)
    steps = [f"{stage}.steps=3" for stage in ("mine", "pretrain", "prune", "finetune")]
    said = invoke(
        *(
            "debias",
            str(tmp_path / "photos"),
            "--out",
            str(tmp_path / "out"),
            "--device",
            "cpu",
            "-q",
            "--anyway",
        ),
        *("--store", str(tmp_path / "store"), "--model", f"{tmp_path / 'model.py'}:build"),
        *(word for change in steps for word in ("--set", change)),
    ).output
    assert "on the training images" in " ".join(said.split())


def test_corrected_suspects_are_used(
    done: tuple[Result, Path], photos: Path, tmp_path: Path
) -> None:
    _, out = done
    (photos / "train" / "lies" / "bad.png").unlink(missing_ok=True)
    lines = (out / "suspects.csv").read_text().splitlines()
    assert (out / "report.html").exists()
    cells = lines[1].split(",")
    assert cells[0].startswith("train/")
    (tmp_path / "mine.csv").write_text("\n".join([lines[0], *lines[2:200]]) + "\n")
    changes = [word for change in SMALL for word in ("--set", change)]
    command = ["debias", str(photos), "--model", f"{photos / 'model.py'}:build", "--device", "cpu"]
    command += [
        "--store",
        str(out.parent / "store"),
        "--out",
        str(tmp_path / "out"),
        "-q",
        *changes,
    ]
    again = invoke(*command, "--suspects", str(tmp_path / "mine.csv"))
    assert "Reused from the store: pretrain." in again.output
    flags = dict(
        line.split(",")[0::4] for line in (tmp_path / "out/suspects.csv").read_text().split()
    )
    assert flags[cells[0]] == ""
    (tmp_path / "mine.csv").write_text("path,flag\nx.png,suspect\n")
    with pytest.raises(DataError, match=r"line 2: 'x\.png'"):
        invoke(*command, "--suspects", str(tmp_path / "mine.csv"))
