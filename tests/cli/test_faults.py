"""Errors of the system, of settings and of user code are never raw tracebacks; exit codes 2, 1 and 130."""

from __future__ import annotations

import io
import os
import shutil
import sys
import warnings
from pathlib import Path

import pytest

from toys import shapes_set
from unspur import cli, stages, workflow
from unspur.data.benchmarks import layout
from unspur.store import Store, atomic

QUICK = """
name = "bars"
data.name = "folder"
model.options.width = 4
mine.how = "oracle"
select.rule = "last"
prune.batch_norm_batches = 2
""" + "".join(
    f"{stage}.steps = 3\n{stage}.batch = 16\n"
    for stage in ("mine", "pretrain", "prune", "finetune")
)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a recipe, its data and a finished run."""
    root = tmp_path_factory.mktemp("desk")
    layout.write(shapes_set(samples=60), root / "data", "1pct")
    (root / "bars.toml").write_text(QUICK)
    run = [str(root / "bars.toml"), "--data-root", str(root / "data"), "--device", "cpu", "-q"]
    with pytest.MonkeyPatch.context() as patch:
        assert command(patch, "run", *run, "--store", f"{root}/store", "--out", f"{root}/out") == 0
    return root


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run main() in this process; return the exit code."""
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main() sets its own
    monkeypatch.setattr(sys, "argv", ["unspur", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    return int(stop.value.code or 0)


@pytest.fixture
def say(desk, tmp_path, monkeypatch, capsys):
    """Return a function that runs a command in a copy of the desk and returns exit code and stderr."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(desk / "store", "store")
    shutil.copytree(desk / "out", "out")
    shutil.copy(desk / "bars.toml", "bars.toml")

    def run(*arguments: str) -> tuple[int, str]:
        if arguments[0] == "run":
            where = ["--store", "store", "--data-root", str(desk / "data"), "--device", "cpu", "-q"]
            arguments = ("run", "bars.toml", *where, *arguments[1:])
        capsys.readouterr()
        code = command(monkeypatch, *arguments)
        said = capsys.readouterr().err
        assert "this is a bug in unspur" not in said, said
        return code, said

    return run


# The system


def test_a_store_that_is_a_file(say) -> None:
    Path("file").write_text("")
    code, said = say("run", "--store", "file", "--set", "seed=5")
    assert code == 1
    assert said.startswith("StoreError: file")
    assert "A file is where a folder should be" in said


@pytest.mark.parametrize(
    ("out", "what"),
    [("out", "out is a folder"), ("bars.toml", "not a page"), ("bars.toml/a", "bars")],
)
def test_a_report_that_cannot_be_written(say, out: str, what: str) -> None:
    code, said = say("report", "out", "--store", "store", "--out", out)
    assert (code, said.startswith("StoreError: ")) == (1, True), said
    assert what in said


def test_a_report_makes_the_folder_of_its_page(say) -> None:
    assert say("report", "out", "--store", "store", "--out", "new/page.html") == (0, "")
    assert Path("new/page.html").stat().st_size > 1000


def test_a_store_that_cannot_be_written_for_removal(say, monkeypatch) -> None:
    def refuse(self, target):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "rename", refuse)
    code, said = say("runs", "rm", "--all", "--store", "store")
    assert code == 1
    assert said.startswith("StoreError: ")
    assert "Permission denied. Choose a folder" in said


def test_a_store_that_is_removed_while_a_run_uses_it(say, monkeypatch) -> None:
    evaluate = stages.driver.evaluate

    def lose(context, results):
        shutil.rmtree("lost")
        return evaluate(context, results)

    monkeypatch.setattr(stages.driver, "evaluate", lose)
    code, said = say("run", "--store", "lost")
    assert (code, said.startswith("StoreError: ")) == (1, True), said


def test_an_input_that_fails_on_disk(say, monkeypatch) -> None:
    def fail(*args, **kwargs):
        raise OSError(5, "Input/output error", "store/x")

    monkeypatch.setattr(atomic.os, "fsync", fail)
    code, said = say("run", "--set", "seed=6")
    assert (code, said.splitlines()[0][:31]) == (1, "StoreError: store/x: Input/outp"), said


# Settings


@pytest.mark.parametrize(
    ("change", "code", "what"),
    [
        ("model.options.width=0.5", 1, "ModelError: convnet cannot be called with"),
        ("model.options.width=-1", 1, "ModelError: convnet cannot be called with"),
        ("model.options.width=100000", 1, "weights; at most"),
        ("model.options.width='x'", 1, "ModelError: convnet cannot be called with"),
        ("model.init=/etc/passwd", 1, "ModelError: /etc/passwd cannot be read as plain weights"),
        ("model.init=bars.toml", 1, "ModelError: bars.toml cannot be read as plain weights"),
        ("pretrain.decay_by=1e300", 2, "RecipeError: bars.toml: pretrain.decay_by"),
        ("refit.strengths=[]", 2, "RecipeError: bars.toml: refit.strengths"),
        ("refit.strengths=[0]", 2, "RecipeError: bars.toml: refit.strengths"),
        ("prune.batch_norm_batches=9223372036854775807", 2, "prune.batch_norm_batches"),
        ("pretrain.batch=1000000", 2, "RecipeError: bars.toml: pretrain.batch"),
        ("pretrain.batch=100000", 2, "RecipeError: pretrain.batch = 100,000, but there are"),
    ],
)
@pytest.mark.parametrize("dry", [[], ["--dry-run"]], ids=["run", "dry run"])
def test_impossible_settings_are_refused(
    say, change: str, code: int, what: str, dry: list[str]
) -> None:
    found, said = say("run", "--set", change, *dry)
    assert found == code, said
    assert what in said
    assert "Traceback" not in said


def test_a_batch_that_the_memory_cannot_hold(say, monkeypatch) -> None:
    monkeypatch.setattr("unspur.stages.batch_check.free_memory", lambda: 10_000)
    code, said = say("run", "--set", "seed=7", "--dry-run")
    assert code == 2
    assert "mine.batch = 16 needs at least" in said or "pretrain.batch = 16 needs at least" in said


# A user's network


LATE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.head = nn.Linear(192, classes)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls > 4 and self.training:
            {late}
        return self.head(x.flatten(1))

def build(classes):
    net = Net(classes)
    {after}
    return net
"""


@pytest.mark.parametrize(
    ("late", "after", "what"),
    [
        ("raise KeyError('lost')", "", "KeyError: 'lost'"),
        ("return self.head(x.flatten(1))[:3]", "", "its outputs could not be used: "),
        ("return None", "", "its outputs could not be used: "),
        ("pass", "raise ZeroDivisionError('at once')", "ZeroDivisionError: at once"),
        ("pass", "net.requires_grad_(False)", "no weight of the model can be trained"),
        ("pass", "return 3", "returned int, not an nn.Module"),
    ],
)
def test_a_network_that_fails(say, late: str, after: str, what: str) -> None:
    Path("net.py").write_text(LATE.format(late=late, after=after))
    where = [
        "--set",
        "model.name=net.py:build",
        "--set",
        "model.options={}",
        "--set",
        "pretrain.steps=9",
    ]
    code, said = say("run", *where)
    first, *rest = said.splitlines()
    assert code == 1
    assert first.startswith("ModelError: ")
    assert what in first
    if "raise" in late + after:
        assert rest[0] == "Traceback (most recent call last):"
        assert "net.py" in rest[1]  # frames of unspur above it are not shown
        assert rest[-1].startswith(("KeyError", "ZeroDivisionError"))


# Exit codes


def test_the_exit_code_of_wrong_use_is_2(say) -> None:
    assert say("run", "--sed", "3")[0] == 2
    assert say("runs", "rm")[0] == 2
    assert say("runs", "rm", "nothing", "--store", "store")[0] == 2
    assert say("run", "--set", "no.such=1")[0] == 2


def test_the_exit_code_of_a_failure_is_1(say) -> None:
    assert say("predict", "nowhere", "a.png")[0] == 1
    assert say("debias", "nowhere", "--out", "x")[0] == 1


@pytest.mark.parametrize("where", ["open_recipe", "carry_out"])
def test_the_exit_code_of_ctrl_c_is_130(say, monkeypatch, where: str) -> None:
    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(workflow, where, stop)
    code, said = say("run")
    assert code == 130
    assert "Traceback" not in said


def test_a_bug_of_unspur_asks_for_a_report(desk, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workflow, "open_recipe", lambda *args, **kwargs: {}["x"])
    code = command(monkeypatch, "run", str(desk / "bars.toml"))
    said = capsys.readouterr().err
    assert code == 1
    assert "Traceback" in said
    assert said.splitlines()[-1].startswith("KeyError: this is a bug in unspur")


# Removal during a live run


def test_results_in_use_are_not_removed(say, desk) -> None:
    (path,) = (p for p in Store(Path("store")).artifacts() if p.name.startswith("pretrain"))
    shutil.move(path, path.with_suffix(".partial"))
    with atomic.locked(path):
        if (child := os.fork()) == 0:  # another process, without this one's lock
            os._exit(say("runs", "rm", "pretrain", "--store", "store")[0])
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
        assert path.with_suffix(".partial").exists()
        assert say("runs", "rm", "pretrain", "--force", "--store", "store") == (
            0,
            f"removed 1, freed {stored_size(desk)}\n",
        )


def stored_size(desk: Path) -> str:
    from unspur.report.terminal import size
    from unspur.store import folder_size

    (path,) = (desk / "store").glob("pretrain-*")
    return size(folder_size(path))


@pytest.mark.parametrize(
    ("errors", "printed"),
    [("strict", b"\xff"), ("replace", b"?"), ("backslashreplace", b"\\udcff")],
)
def test_names_that_are_no_text_are_printed_as_the_user_has_chosen(
    monkeypatch: pytest.MonkeyPatch, errors: str, printed: bytes
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii", errors=errors))
    monkeypatch.setattr(cli, "app", lambda: print("\udcff", end=""))
    cli.main()
    sys.stdout.flush()
    assert raw.getvalue() == printed
