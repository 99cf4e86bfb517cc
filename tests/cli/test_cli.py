"""The command line: every command on tiny data, exit codes, and one clear line for every error."""

from __future__ import annotations

import csv
import errno
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner, Result

from toys import shapes_set
from unspur import cli, recipes, stages
from unspur.cli import recipe_commands, store_commands
from unspur.data.benchmarks import layout
from unspur.errors import Interrupted, StoreError, UnspurError
from unspur.report.run_clock import RunClock
from unspur.report.terminal import Lines, percent, size, summary
from unspur.version import VERSION

REAL = os.environ.get("UNSPUR_DATA")
ROOT = Path(__file__).parents[2]
STAGES = ["mine", "pretrain", "prune", "finetune"]
QUICK = """
name = "bars"
data.name = "folder"
model.options.width = 4
mine.how = "oracle"
mine.steps = 4
pretrain.steps = 4
prune.steps = 4
finetune.steps = 4
mine.batch = 32
pretrain.batch = 32
prune.batch = 32
finetune.batch = 32
prune.batch_norm_batches = 2
select.every = 2
"""


class Desk(NamedTuple):
    """The working folder of a test: a recipe, its data, a store."""

    root: Path
    recipe: str
    data: str
    store: str

    @property
    def options(self) -> list[str]:
        return ["--data-root", self.data, "--store", self.store, "--device", "cpu"]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    root = tmp_path_factory.mktemp("desk")
    layout.write(shapes_set(samples=120), root / "bars", "1pct")
    (root / "bars.toml").write_text(QUICK)
    return Desk(root, str(root / "bars.toml"), str(root / "bars"), str(root / "store"))


@pytest.fixture(scope="module")
def out(desk: Desk) -> Path:
    """Return the folder of a finished run."""
    folder = desk.root / "out"
    done = invoke("run", desk.recipe, *desk.options, "--out", str(folder), "--quiet")
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def fresh(desk: Desk, tmp_path: Path) -> Desk:
    """Return the same desk with an empty store."""
    return desk._replace(store=str(tmp_path / "store"))


@pytest.fixture
def full(desk: Desk, out: Path, tmp_path: Path) -> Desk:
    """Return the same desk with a copy of the store, to delete from."""
    shutil.copytree(desk.store, tmp_path / "store")
    return desk._replace(store=str(tmp_path / "store"))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UNSPUR_DATA", raising=False)
    monkeypatch.delenv("UNSPUR_STORE", raising=False)
    monkeypatch.setenv("COLUMNS", "100")


def invoke(*arguments: str) -> Result:
    """Run a command in this process; errors of unspur are not caught."""
    result = CliRunner().invoke(cli.app, list(arguments))
    if isinstance(result.exception, UnspurError):
        raise result.exception
    return result


def shell(*arguments: str, columns: int = 100) -> subprocess.CompletedProcess[str]:
    """Run a command in a new process, as a user would."""
    return subprocess.run(
        [sys.executable, "-m", "unspur", *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "COLUMNS": str(columns), "OMP_NUM_THREADS": "1"},
    )


def fails(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *arguments: str,
    code: int = 0,
) -> str:
    """Run main() in this process, and check its exit code: by default that of the error it printed."""
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main() sets its own
    monkeypatch.setattr(sys, "argv", ["unspur", *arguments])
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        cli.main()
    said = capsys.readouterr()
    wrong_use = said.err.startswith(("RecipeError", "UsageError"))
    assert stop.value.code == (code or (2 if wrong_use else 1)), said.err
    assert "Traceback" not in said.err
    return said.err


def names(store: str) -> list[str]:
    return sorted(path.name for path in Path(store).iterdir() if path.is_dir())


# -- run ----------------------------------------------------------------------------------------------


def test_run_writes_the_folder_and_prints_the_table(fresh: Desk, tmp_path: Path) -> None:
    done = invoke("run", fresh.recipe, *fresh.options, "--out", str(tmp_path / "new"))
    assert done.exit_code == 0, done.output
    assert (tmp_path / "new" / "model.safetensors").exists()
    scores = json.loads((tmp_path / "new" / "scores.json").read_text())
    for row in ("ordinary", "pruned", "debiased"):
        line = next(line for line in done.stdout.splitlines() if row in line)
        assert percent(scores[row]["unbiased"]) in line
        assert percent(scores[row]["conflicting"]) in line
    assert "precision" in done.stdout
    assert "Reused from the store" not in done.stdout


def test_a_second_run_says_what_is_stored(full: Desk, out: Path, tmp_path: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in Path(full.store).rglob("*")}
    done = invoke("run", full.recipe, *full.options, "--out", str(tmp_path / "again"))
    assert "Reused from the store: mine, pretrain, prune, finetune." in done.stdout
    assert {p: p.stat().st_mtime_ns for p in Path(full.store).rglob("*")} == before
    for name in ("model.safetensors", "masks.safetensors", "scores.json"):
        assert (tmp_path / "again" / name).read_bytes() == (out / name).read_bytes()


def test_a_changed_setting_runs_what_depends_on_it(full: Desk, tmp_path: Path) -> None:
    changed = ["--set", "finetune.steps=5", "--out", str(tmp_path / "out")]
    done = invoke("run", full.recipe, *full.options, *changed)
    assert "Reused from the store: mine, pretrain, prune." in done.stdout
    settings = recipes.load(str(tmp_path / "out" / "recipe.toml"))
    assert (settings.prune.steps, settings.finetune.steps) == (4, 5)


def test_a_seed_makes_another_run_with_its_own_folder(full: Desk) -> None:
    done = invoke("run", full.recipe, *full.options, "--seed", "7", "--set", "seed=1", "-q")
    assert done.exit_code == 0
    assert recipes.load("runs/bars-seed7/recipe.toml").seed == 7
    assert len(names(full.store)) == 12


def test_the_folder_of_the_run_is_named_in_one_piece(full: Desk, tmp_path: Path) -> None:
    folder = tmp_path / ("long-" * 20) / "out"
    done = invoke("run", full.recipe, *full.options, "--out", str(folder))
    assert f"Everything is in {folder}/." in done.stdout


@pytest.mark.parametrize(
    ("miner", "stages_shown"), [("gce", ["mine", "pretrain"]), ("oracle", STAGES[1:])]
)
def test_progress_lines_when_piped(fresh: Desk, miner: str, stages_shown: list[str]) -> None:
    done = invoke("run", fresh.recipe, *fresh.options, "--set", f"mine.how={miner}")
    for stage in stages_shown:  # the stages after mining depend on its result
        pattern = (
            rf"^{stage}: step 4 of 4, loss -?\d+\.\d{{4}}(, 0 s left)?(, \d+ s left in the run)?$"
        )
        assert re.search(pattern, done.stderr, re.MULTILINE), done.stderr


def test_quiet(fresh: Desk) -> None:
    done = invoke("run", fresh.recipe, *fresh.options, "--quiet")
    assert done.stderr == ""
    assert "debiased" in done.stdout


def test_lines_come_every_few_seconds_and_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 1.0, 3.0, 10.0, 14.0, 15.0])
    lines = Lines("prune", RunClock(now=lambda: next(times)), every=10.0)
    lines.update(1, 400, float("nan"))  # before the first loss is read
    lines.update(50, 400, float("nan"))
    for step in (101, 200, 300, 400):
        lines.update(step, 400, 0.5)
    assert capsys.readouterr().err.splitlines() == [
        "prune: step 101 of 400, loss 0.5000, 9 s left",
        "prune: step 300 of 400, loss 0.5000, 5 s left",
        "prune: step 400 of 400, loss 0.5000, 0 s left",
    ]


def test_a_stage_of_one_step_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    Lines("mine").update(1, 1, 0.5)
    assert capsys.readouterr().err.splitlines() == ["mine: step 1 of 1, loss 0.5000"]


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"rule": "heldout", "step": 7}, "7 (lowest loss"),
        ({"rule": "last", "step": 9, "reason": "too few"}, "9 (the last one: too few)"),
        (
            {"rule": "last", "step": 9, "reason": "asked for"},
            "9 (the last one: set by select.rule)",
        ),
    ],
)
def test_the_summary_says_why_a_step_was_selected(chosen: dict[str, object], said: str) -> None:
    half = {"all": 0.5, "suspects": 0.5, "others": 0.5}
    counts = {"all": 4, "suspects": 2, "others": 2}
    unseen = {"split": "valid", "ordinary": half, "debiased": half, "counts": counts}
    accuracy = {"unbiased": None}
    scores = {"mining": None, "unseen": unseen, "debiased": accuracy, "selection": chosen}
    lines = list(summary({**scores, "evaluated_on": "train"}))
    assert any(f"step selected: {said}" in line for line in lines)
    assert ("to select the training step" in lines[1]) == (chosen["rule"] == "heldout")
    assert not any("worse" in line or "no weights" in line for line in lines)
    unseen["debiased"] = {**half, "all": 0.4}
    more = {**scores, "density": {"overall": 0.999}, "evaluated_on": "train"}
    said_now = " ".join(summary({**more, "pruned": accuracy}))
    assert "worse here than the ordinary one" in said_now
    assert "no weights were cut" in said_now


def test_version() -> None:
    assert invoke("--version").stdout == f"unspur {VERSION}\n"


def test_dry_run_runs_nothing(fresh: Desk) -> None:
    done = invoke("run", fresh.recipe, *fresh.options, "--dry-run")
    assert done.exit_code == 0
    rows = [line.split() for line in done.stdout.splitlines()]
    for stage in STAGES:
        row = next(row for row in rows if stage in row)
        assert "4" in row
        assert "no" in row
        assert "s" in row
    assert re.search(r"on cpu with \d+ threads?; nothing was run\.", done.stdout)
    assert not Path(fresh.store).exists()
    assert list(Path().iterdir()) == []


def test_dry_run_shows_which_stages_are_stored(full: Desk) -> None:
    done = invoke("run", full.recipe, *full.options, "--dry-run", "--set", "finetune.steps=400")
    rows = {row[1]: row for row in map(str.split, done.stdout.splitlines()) if len(row) > 5}
    assert [("yes" in rows[stage]) for stage in STAGES] == [True, True, True, False]
    seconds = float(rows["finetune"][rows["finetune"].index("s") - 1])
    assert 0 <= seconds < 120


def test_recipes_without_a_terminal_are_names_one_a_line() -> None:
    assert invoke("recipes").stdout.split("\n")[:-1] == recipes.names()
    assert invoke("recipes", "list").stdout.split() == recipes.names()
    assert set(invoke("recipes", "list", "mnist/debias").stdout.split()) == {
        "mnist/debias",
        "mnist/debias-1",
    }


def test_recipes_on_a_terminal_are_grouped_by_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe_commands, "output", Console(force_terminal=True, width=100))
    shown = invoke("recipes").stdout
    assert len(shown.splitlines()) < 40
    assert re.search(r"cifar10c.*0\.5pct, 1pct, 2pct, 5pct.*dcwp", shown)
    assert "unspur recipes list" in shown


def test_recipes_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # where results are
    text = invoke("recipes", "show", "cmnist/1pct-dcwp").stdout
    assert "# Published: 95.98 (ERM: 81.73), unbiased accuracy in per cent." in text
    assert re.search(
        r"# Ours: [\d.]+ ± [\d.]+ \(ERM: .*\); 4 seeds, [\d.]+ minutes per run on NVIDIA", text
    )
    assert recipes.parse(tomllib.loads(text), where="shown") == recipes.load("cmnist/1pct-dcwp")
    changed = invoke("recipes", "show", "cmnist/1pct-dcwp", "--set", "prune.steps=7").stdout
    assert re.search(r"steps = 7 +# --set", changed)
    assert "# Ours" not in changed  # never run


def test_recipes_show_without_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "# Ours" not in invoke("recipes", "show", "cmnist/1pct-dcwp").stdout
    (tmp_path / "few.toml").write_text('base = "cmnist/1pct-dcwp"\nseed = 3\n')
    assert re.search(r"seed = 3 +# few.toml", invoke("recipes", "show", "few.toml").stdout)


def test_help_without_arguments() -> None:
    done = CliRunner().invoke(cli.app, [])
    for verb in ("run", "demo", "bench", "recipes", "predict", "evaluate", "data", "runs"):
        assert verb in done.output


# -- errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["run", "cmnist/1pct-dwcp"],
            "RecipeError: there is no recipe 'cmnist/1pct-dwcp'. Did you mean cmnist/1pct-dcwp?",
        ),
        (
            ["run", "none.toml"],
            "RecipeError: none.toml: cannot be read (No such file or directory).",
        ),
        (
            ["run", "cmnist/1pct-dcwp", "--set", "prune.sparsty=1"],
            "RecipeError: cmnist/1pct-dcwp: unknown key prune.sparsty. "
            "Did you mean prune.sparsity?",
        ),
        (
            ["run", "cmnist/1pct-dcwp", "--set", "prune.sparsity"],
            "RecipeError: --set prune.sparsity: give it as key=value, as in prune.sparsity=1e-6.",
        ),
        (
            ["run", "cmnist/1pct-dcwp", "--set", 'data.name="given"'],
            "RecipeError: cmnist/1pct-dcwp: data.name is not set. "
            "Choose one of cmnist, cifar10c, cmnist-dev, cifar10c-dev, cifar10, mnist, bffhq, "
            "celeba, demo, folder.",
        ),
        (
            ["run", "cmnist/1pct-dcwp", "--data-root", "nowhere"],
            "DataError: there is no data folder nowhere (data_root). Pass --data-root, set the environment "
            "variable UNSPUR_DATA, or put the data in data/ in the working directory.",
        ),
        (
            ["bench", "cmnist/1pct-dcwp", "--seeds", "1,two", "--out", "x.json"],
            "RecipeError: --seeds '1,two' is not a list of whole numbers. Separate them by commas, as in "
            "55,66.",
        ),
        (
            ["data", "make", "fashion", "--out", "x"],
            "RecipeError: 'fashion' cannot be made. Choose one of cmnist, cifar10c.",
        ),
        (
            ["predict", "nowhere", "a.png"],
            "StoreError: nowhere/model.json is missing: nowhere is not the folder of a run.",
        ),
    ],
)
def test_an_error_is_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    line: str,
) -> None:
    assert fails(capsys, monkeypatch, *arguments) == line + "\n"


def test_exit_code_of_a_bad_recipe(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("[prune]\nsparsty = 1e-6\n")
    done = shell("run", "bad.toml", columns=40)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "RecipeError: bad.toml: unknown key prune.sparsty. Did you mean prune.sparsity?\n"
    )


def test_exit_code_of_a_good_run(full: Desk) -> None:
    done = shell("run", full.recipe, *full.options, "--out", "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Everything is in out/." in done.stdout


def test_exit_code_of_a_wrong_option() -> None:
    done = CliRunner().invoke(cli.app, ["run", "demo", "--sed", "3"])
    assert done.exit_code == 2
    assert "--sed" in done.output


def test_interrupted(
    fresh: Desk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(context: object) -> None:
        raise Interrupted(
            "stopped at step 3 of 4. Run the same command again to continue from here."
        )

    monkeypatch.setattr(stages, "run_together", stop)
    said = fails(capsys, monkeypatch, "run", fresh.recipe, *fresh.options, code=130)
    assert said == "stopped at step 3 of 4. Run the same command again to continue from here.\n"


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--device", "gpu"], "gpu"),
        (["--set", "model.name=convent"], "there is no model 'convent'"),
        (["--set", "model.options={ widht = 4 }"], "convnet cannot be called with"),
        (["--set", "data.ratio=7pct"], "Ratios found in"),
        (["--set", "data.mean=[0.5]"], "data.mean"),
        (["--set", "data.mean=[0.5, 0.5]", "--set", "data.std=[1.0, 1.0]"], "data.mean"),
        (["--set", "model.name=mlp"], "mlp cannot be called with"),
        (["--set", "model.name=mlp", "--set", "model.options={ inputs = 48 }"], "(3, 8, 8)"),
        (["--set", "mine.betas=[0.9, 1.5]", "--set", "mine.how=gce"], "mine.betas"),
    ],
)
def test_settings_that_do_not_fit(
    fresh: Desk,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    what: str,
) -> None:
    said = fails(capsys, monkeypatch, "run", fresh.recipe, *fresh.options, *options)
    assert len(said.splitlines()) == 1
    assert what in said


def test_a_file_in_place_of_the_folder(
    full: Desk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("taken").write_text("")
    said = fails(capsys, monkeypatch, "run", full.recipe, *full.options, "--out", "taken")
    assert "taken" in said


# -- predict and evaluate -----------------------------------------------------------------------------


def test_predict_files_and_folders(out: Path, desk: Desk) -> None:
    folder = Path(desk.data, "test", "0")
    other = next(iter(sorted(Path(desk.data, "test", "1").iterdir())))
    done = invoke("predict", str(out), str(folder), str(other))
    rows = list(csv.reader(done.stdout.splitlines()))
    assert rows[0] == ["path", "class", "probability"]
    assert [row[0] for row in rows[1:]] == [*map(str, sorted(folder.iterdir())), str(other)]
    assert {row[1] for row in rows[1:]} <= {"0", "1"}
    assert all(0.5 <= float(row[2]) <= 1 and len(row[2]) == 6 for row in rows[1:])


def test_predict_agrees_with_the_scores(out: Path, desk: Desk) -> None:
    files = sorted(Path(desk.data, "test").rglob("*.png"))
    done = invoke("predict", str(out), str(Path(desk.data, "test")))
    rows = list(csv.reader(done.stdout.splitlines()))[1:]
    assert [row[0] for row in rows] == list(map(str, files))
    right = np.mean([row[1] == Path(row[0]).stem.split("_")[1] for row in rows])
    scores = json.loads((out / "scores.json").read_text())
    assert right == pytest.approx(scores["debiased"]["average"])


def test_predict_quotes_names_with_commas(out: Path) -> None:
    Image.new("RGB", (20, 30), "red").save("one, two.png")
    done = invoke("predict", str(out), "one, two.png")
    assert list(csv.reader(done.stdout.splitlines()))[1][0] == "one, two.png"


def test_predict_without_images(out: Path) -> None:
    Path("empty").mkdir()
    with pytest.raises(UnspurError, match="no image files in empty"):
        invoke("predict", str(out), "empty")
    with (
        pytest.warns(UserWarning, match="none.png: not a readable image"),
        pytest.raises(UnspurError, match="1 of 1 files could not be read"),
    ):
        invoke("predict", str(out), "none.png")


def test_predict_continues_after_an_unreadable_file(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("some").mkdir()
    for name in ("a", "c"):
        Image.new("RGB", (20, 30), "red").save(f"some/{name}.png")
    Path("some/b.png").write_bytes(b"nothing")
    with (
        pytest.warns(UserWarning, match="b.png: not a readable image"),
        pytest.raises(UnspurError, match="1 of 3 files could not be read"),
    ):
        invoke("predict", str(out), "some")


def test_evaluate_on_a_folder(out: Path, desk: Desk) -> None:
    done = invoke("evaluate", str(out), desk.data)
    scores = json.loads((out / "scores.json").read_text())["debiased"]
    for name in ("unbiased", "aligned", "conflicting", "worst_group", "average"):
        line = next(
            line
            for line in done.stdout.splitlines()
            if re.search(rf"\b{name.replace('_', ' ')} +│", line)
        )
        assert percent(scores[name]) in line


def test_evaluate_on_data_that_does_not_fit(out: Path) -> None:
    with pytest.raises(
        UnspurError, match=r"takes \(3, 8, 8\) images of 2 classes, and demo/1pct has"
    ):
        invoke("evaluate", str(out), "demo")


def test_evaluate_on_a_missing_folder(out: Path) -> None:
    with pytest.raises(UnspurError, match=r"there is no folder nowhere\."):
        invoke("evaluate", str(out), "nowhere")


# -- bench --------------------------------------------------------------------------------------------


def test_bench_writes_numbers_and_a_table(full: Desk) -> None:
    done = invoke(
        "bench", full.recipe, *full.options, "--seeds", "0,1", "--out", "res/b.json", "-q"
    )
    assert done.exit_code == 0, done.output
    results = json.loads(Path("res/b.json").read_text())
    assert results["seeds"] == [0, 1]
    assert [run["seed"] for run in results["results"][0]["runs"]] == [0, 1]
    assert "| bars |" in Path("res/b.md").read_text()
    assert "bars" in done.stdout
    assert (
        len(names(full.store)) == 11
    )  # the stages of the first seed, pictures included, were stored before


def test_bench_takes_changes(full: Desk) -> None:
    invoke("bench", full.recipe, *full.options, "--set", "plan=erm", "--out", "b.json", "-q")
    row = json.loads(Path("b.json").read_text())["results"][0]
    assert row["recipe"]["plan"] == "erm"
    assert row["runs"][0]["mining"] is None


# -- the store ----------------------------------------------------------------------------------------


def test_runs_list(full: Desk) -> None:
    shutil.copytree(Path(full.store, names(full.store)[0]), Path(full.store, "mine-0123.partial"))
    done = invoke("runs", "list", "--store", full.store)
    lines = done.stdout.splitlines()
    for name in names(full.store):
        stem, _, suffix = name.partition(".")
        line = next(line for line in lines if stem in line)
        assert ("in progress" if suffix else "finished") in line
    total = sum(f.stat().st_size for f in Path(full.store).rglob("*") if f.is_file())
    assert f"{size(total)} in" in done.stdout


def test_runs_list_shows_whole_names_in_a_narrow_terminal(
    full: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = invoke("runs", "list", "--store", full.store)
    for name in names(full.store):
        assert name in done.stdout


def test_runs_list_of_nothing() -> None:
    done = invoke("runs", "list")
    assert done.exit_code == 0
    assert "0 B in runs/store" in done.stdout


def damage(store: str) -> str:
    """Flip a bit of one artifact, and return its name."""
    name = next(name for name in names(store) if name.startswith("pretrain"))
    file = Path(store, name, "tensors.safetensors")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    return name


def test_runs_list_shows_damage(full: Desk) -> None:
    name = damage(full.store)
    done = invoke("runs", "list", "--store", full.store)
    assert "damaged" in next(line for line in done.stdout.splitlines() if name in line)


def test_what_cannot_be_read_is_not_removed_as_damaged(
    full: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: Path) -> str:
        raise PermissionError(errno.EACCES, "Permission denied")

    before = names(full.store)
    monkeypatch.setattr("unspur.store.artifacts.file_checksum", fails)
    assert "unreadable" in invoke("runs", "list", "--store", full.store).stdout
    invoke("runs", "rm", "--unfinished", "--store", full.store)
    assert names(full.store) == before


def test_what_a_run_finishes_meanwhile_does_not_stop_the_removal(
    full: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = names(full.store)[0]
    measured = store_commands.stored.folder_size

    def measure(path: Path) -> int:
        if path.name == first:
            shutil.rmtree(path)
        return measured(path)

    monkeypatch.setattr(store_commands.stored, "folder_size", measure)
    with pytest.raises(StoreError, match=f"{first} has just been finished or removed"):
        invoke("runs", "rm", "--all", "--store", full.store)
    assert names(full.store) == []


def test_runs_rm_by_the_start_of_a_name(full: Desk) -> None:
    before = names(full.store)
    done = invoke("runs", "rm", "prune", "finetune", "--store", full.store)
    assert names(full.store) == [n for n in before if not n.startswith(("prune", "finetune"))]
    assert done.stderr.startswith("removed 2, freed ")


def test_runs_rm_by_a_whole_name(full: Desk) -> None:
    before = names(full.store)
    invoke("runs", "rm", before[2], "--store", full.store)
    assert names(full.store) == before[:2] + before[3:]


def test_runs_rm_all(full: Desk) -> None:
    invoke("runs", "rm", "--all", "--store", full.store)
    assert names(full.store) == []


def test_runs_rm_unfinished(full: Desk) -> None:
    finished = names(full.store)
    for suffix in ("partial", "damaged-17"):
        Path(full.store, f"mine-0123.{suffix}").mkdir()
    invoke("runs", "rm", "--unfinished", "--store", full.store)
    assert names(full.store) == finished


def test_runs_rm_unfinished_removes_damaged_results_too(full: Desk) -> None:
    name = damage(full.store)
    invoke("runs", "rm", "--unfinished", "--store", full.store)
    assert name not in names(full.store)
    assert len(names(full.store)) == 5


@pytest.mark.parametrize("unknown", ["none", "mine-zz"])
def test_runs_rm_of_an_unknown_name_removes_nothing(full: Desk, unknown: str) -> None:
    before = names(full.store)
    with pytest.raises(UnspurError, match=f"begins with '{unknown}'"):
        invoke("runs", "rm", "prune", unknown, "--store", full.store)
    assert names(full.store) == before


@pytest.mark.parametrize("arguments", [[], [""], [" "]])
def test_runs_rm_of_no_name_removes_nothing(full: Desk, arguments: list[str]) -> None:
    before = names(full.store)
    with pytest.raises(UnspurError):
        invoke("runs", "rm", *arguments, "--store", full.store)
    assert names(full.store) == before


def test_removed_stages_are_computed_again(full: Desk, out: Path) -> None:
    invoke("runs", "rm", "pretrain", "--store", full.store)
    done = invoke("run", full.recipe, *full.options, "--out", "again")
    assert "Reused from the store: mine, prune, finetune." in done.stdout
    assert Path("again/model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()


# -- data ---------------------------------------------------------------------------------------------


def test_data_make_without_digits() -> None:
    with pytest.raises(UnspurError, match=r"there is no data folder data \(the default\)"):
        invoke("data", "make", "cmnist", "--out", "cmnist")
    Path("data").mkdir()
    with pytest.raises(
        UnspurError, match="MNIST is incomplete: neither train-images-idx3-ubyte nor"
    ):
        invoke("data", "make", "cmnist", "--out", "cmnist")
    assert not Path("cmnist").exists()


@pytest.mark.real
@pytest.mark.slow
def test_data_make_cmnist() -> None:
    if not (root := REAL):
        pytest.skip("UNSPUR_DATA names no folder of real data")
    done = invoke(
        "data", "make", "cmnist", "--ratio", "1pct", "--out", "sets/cmnist", "--data-root", root
    )
    assert done.exit_code == 0, done.output
    assert "55000 training images" in done.stderr
    assert len(list(Path("sets/cmnist/1pct/conflict").rglob("*.png"))) == 491
    assert len(list(Path("sets/cmnist/1pct/align").rglob("*.png"))) == 55_000 - 491
    assert len(list(Path("sets/cmnist/test").rglob("*.png"))) == 10_000
    with pytest.raises(UnspurError, match="exists already"):
        invoke(
            "data", "make", "cmnist", "--ratio", "1pct", "--out", "sets/cmnist", "--data-root", root
        )
    planned = invoke(
        "run", "cmnist/1pct-dcwp", "--data-root", "sets", "--dry-run", "--device", "cpu"
    )
    assert "nothing was run" in planned.stdout


# -- other --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "2 kB"), (2_500_000, "2 MB"), (3.2e9, "3.2 GB")],
)
def test_sizes_are_readable(count: float, text: str) -> None:
    assert size(count) == text


def test_settings_of_torch_are_restored(fresh: Desk) -> None:
    before = torch.are_deterministic_algorithms_enabled(), torch.random.get_rng_state()
    invoke("run", fresh.recipe, *fresh.options, "-q")
    assert torch.are_deterministic_algorithms_enabled() == before[0]
    assert torch.equal(torch.random.get_rng_state(), before[1])
