"""A folder has one writer at a time and one result; pages of damaged folders are refused."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

import toys
import unspur
from pages import refuse
from sealing import reseal
from unspur import runs, stages, workflow
from unspur.errors import StoreError
from unspur.report import page
from unspur.runs.result_folder import refuse_other, write_alone
from unspur.store import Kind, claim


def carry_out(folder: Path, *changes: str) -> workflow.Outcome:
    run = stages.Run(toys.context(folder / "store", changes))
    return workflow.carry_out(run, folder / "out")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    carry_out(folder)
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """Return a copy of a run and its store, to damage."""
    return Path(shutil.copytree(written, tmp_path / "copy")) / "out"


# -- one writer, one result ---------------------------------------------------------------------------


def test_a_folder_that_is_being_written_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with claim(tmp_path / "out"), pytest.raises(StoreError) as refused:
        carry_out(tmp_path)
    assert f"out is being written by process {os.getpid()} on " in str(refused.value)
    assert not (tmp_path / "store").exists()


def test_the_folder_of_the_images_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    run = stages.Run(toys.context(tmp_path / "store"))
    same = tmp_path / "photos" / ".." / "photos"
    with pytest.raises(StoreError, match="photos is the folder of the images"):
        workflow.carry_out(run, same, source=str(tmp_path / "photos"))
    assert list((tmp_path / "photos").iterdir()) == []
    assert not (tmp_path / "store").exists()


def test_a_folder_that_cannot_be_created_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file in the way")
    with pytest.raises(StoreError, match="out"):
        carry_out(tmp_path)
    assert not (tmp_path / "store").exists()


def test_a_run_that_fails_leaves_no_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), write_alone(tmp_path / "out", "run"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_temporary_files_of_a_killed_writer_are_removed(folder: Path) -> None:
    for name in ("scores.json", "report.html", "ordinary/model.json"):
        (folder / f"{name}.0a1b2c3d.tmp").write_bytes(b"half")
    (folder / "notes.tmp").write_bytes(b"of the user")
    carry_out(folder.parent)
    assert [path.name for path in folder.rglob("*.tmp")] == ["notes.tmp"]
    assert not list(folder.glob("*.lock"))


@pytest.mark.parametrize("kind", ["audit", "export"])
def test_results_of_two_kinds_are_not_mixed(tmp_path: Path, kind: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / f"{kind}.json").write_text("{}")
    with pytest.raises(StoreError, match=f"contains an {kind}.*a run. Choose another --out"):
        carry_out(tmp_path)
    assert not (tmp_path / "store").exists()


def test_a_new_run_replaces_all_files_of_the_one_before(folder: Path) -> None:
    (folder / "report.html").write_text("of the run before")
    (folder / "skipped.csv").write_text("of the run before")
    with pytest.warns(UserWarning, match=r"suspects\.csv is of another run"):
        carry_out(folder.parent, "plan=erm")
    names = {path.name for path in folder.iterdir()}
    assert not names & {"skipped.csv", "suspects.csv", "ordinary"}
    assert "of the run before" not in (folder / "report.html").read_text()
    assert json.loads((folder / "scores.json").read_text())["mining"] is None


def test_a_folder_belongs_to_one_run_wherever_writing_stops(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stop at every rename while a second run replaces the first one in a folder."""
    contexts = [toys.context(written / "store", [f"finetune.steps={n}"]) for n in (30, 20)]
    (one, scores), (two, others) = (stages.run(context) for context in contexts)
    runs.save(contexts[0], one, scores, tmp_path / "first")
    states: list[str] = []
    for moment in range(1, 100):
        out = Path(shutil.copytree(tmp_path / "first", tmp_path / str(moment)))
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", stop_at(moment))
            with contextlib.suppress(KeyboardInterrupt), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # suspects.csv is renamed
                runs.save(contexts[1], two, others, out)
                states.append("finished")
        states.append(state(out, one.final_weights, two.final_weights))
        if "finished" in states:
            break
    assert states[-2:] == ["finished", "second"]
    assert {"first", "refused", "second"} == {*states} - {"finished"}


def stop_at(moment: int) -> Callable[..., None]:
    """Return a rename function that is interrupted at its n-th call."""
    count, rename = itertools.count(1), os.replace

    def renamed(*paths: Any) -> None:
        if next(count) == moment:
            raise KeyboardInterrupt
        rename(*paths)

    return renamed


def state(out: Path, first: dict[str, Tensor], second: dict[str, Tensor]) -> str:
    """Return which run's model is in a folder, and check that the record is of the same run."""
    try:
        loaded = unspur.load(out, model=toys.TinyNet()).model.state_dict()
    except StoreError:
        return "refused"
    name = "first" if toys.same(loaded, first) else "second"
    assert toys.same(loaded, {"first": first, "second": second}[name])
    steps = tomllib.loads((out / "recipe.toml").read_text())["finetune"]["steps"]
    assert steps == {"first": 30, "second": 20}[name]
    return name


TWO = """
import sys
from pathlib import Path

import torch

torch.set_num_threads(1)
sys.modules["sklearn"] = None  # t-SNE maps would take a second
import toys
from unspur import stages, workflow
from unspur.errors import StoreError

folder = Path(sys.argv[1])
run = stages.Run(toys.context(folder / "store", [f"seed={sys.argv[2]}"]))
print("ready", flush=True)
sys.stdin.readline()
try:
    workflow.carry_out(run, folder / "out")
except StoreError as error:
    print(error)
"""


def test_processes_at_the_same_time_never_mix_their_files(tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(toys.__file__).parent), os.environ.get("PYTHONPATH", "")])
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", TWO, str(tmp_path), str(seed)],
            env={**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""},
            text=True,
            **pipes,  # type: ignore[call-overload]
        )
        for seed in (1, 2)
    ]
    for each in started:
        assert each.stdout.readline() == "ready\n"
    said = [each.communicate("go\n", timeout=600) for each in started]
    assert [each.returncode for each in started] == [0, 0], said
    done = [text for text, _ in said if not text]
    refused = [text for text, _ in said if "is being written by process" in text]
    assert done
    assert len(done) + len(refused) == 2
    unspur.load(tmp_path / "out", model=toys.TinyNet())
    assert not [p for p in (tmp_path / "out").iterdir() if p.suffix in (".tmp", ".lock")]


def test_a_reader_is_asked_to_wait_for_a_writer(folder: Path) -> None:
    (folder / "scores.json").write_text("{}")
    with claim(folder), pytest.raises(StoreError, match=r"is being written by process .*Wait"):
        unspur.load(folder, model=toys.TinyNet())
    with pytest.raises(StoreError, match=r"scores\.json is damaged"):
        unspur.load(folder, model=toys.TinyNet())
    (folder / ".unspur.lock").write_text("process 999999999 on nowhere-we-know, since 2001")
    with pytest.raises(StoreError, match=r"is being written by process 999999999"):
        unspur.load(folder, model=toys.TinyNet())
    (folder / ".unspur.lock").write_text(f"process 999999999 on {platform.node()}, since 2001")
    with pytest.raises(StoreError, match=r"scores\.json is damaged"):
        unspur.load(folder, model=toys.TinyNet())


# -- pages --------------------------------------------------------------------------------------------


def test_a_page_is_made_from_undamaged_files_only(folder: Path) -> None:
    chance = random.Random(0)
    for name in ("run.json", "scores.json", "model.json", "recipe.toml", "manifest.json"):
        whole = (folder / name).read_bytes()
        for _ in range(20):
            damaged = bytearray(whole)
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            (folder / name).write_bytes(damaged)
            with pytest.raises(StoreError, match=rf"{name} is damaged.*[Rr]un the command"):
                page.write(folder)
        (folder / name).write_bytes(whole)


def mutate(content: object, chance: random.Random) -> object:
    """Replace, remove or repeat one value somewhere in a document."""
    other = chance.choice([None, -1, 2**62, "x", [], {}, [[[]]], True, 0.5])
    if isinstance(content, dict) and content and chance.random() < 0.8:
        name = chance.choice(list(content))
        changed = {key: value for key, value in content.items() if key != name}
        return (
            changed if chance.random() < 0.2 else {**content, name: mutate(content[name], chance)}
        )
    if isinstance(content, list) and content and chance.random() < 0.8:
        place = chance.randrange(len(content))
        return [*content[:place], mutate(content[place], chance), *content[place + 1 :]]
    return other


@pytest.mark.parametrize("name", ["run.json", "scores.json", "model.json"])
def test_files_with_wrong_content_raise_our_error(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, "sklearn")  # t-SNE maps would take a second
    whole = json.loads((folder / name).read_text())
    chance = random.Random(name)
    refused: list[str] = []
    for _ in range(25):
        (folder / name).write_text(json.dumps(mutate(whole, chance)))
        reseal(folder)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                page.write(folder)
        except StoreError as error:
            refused.append(str(error))
    assert len(refused) > 3
    assert all("the command" in text or name in text for text in refused)


def test_a_damaged_log_does_not_stop_the_page(folder: Path) -> None:
    log = next(folder.parent.glob("store/pretrain-*/log.jsonl"))
    log.write_bytes(log.read_bytes()[:-5] + b"\xff\n")
    with pytest.warns(UserWarning, match=r"log\.jsonl is damaged: 1 lines"):
        page.write(folder)
    with pytest.warns(UserWarning, match=r"log\.jsonl is damaged"):
        carry_out(folder.parent)


@pytest.mark.parametrize("name", ["model.safetensors", "manifest.json", "report.html"])
@pytest.mark.parametrize("kind", ["run", "audit"])
def test_files_that_are_not_from_a_result_are_not_replaced(
    tmp_path: Path, kind: Kind, name: str
) -> None:
    """Such as the weights that a run starts from: --init weights/model.safetensors --out weights."""
    (tmp_path / name).write_text("mine")
    if kind == "audit" and name == "model.safetensors":
        refuse_other(tmp_path, kind)  # an audit writes no such file
        return
    with pytest.raises(StoreError, match=rf"{name} exists and is not from .* Choose another --out"):
        refuse_other(tmp_path, kind)
    (tmp_path / name).unlink()
    (tmp_path / "notes.txt").write_text("mine")
    refuse_other(tmp_path, kind)
