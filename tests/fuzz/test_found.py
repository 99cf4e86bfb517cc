"""Regression tests for the faults that fuzzing has found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import unspur
from sealing import edit
from unspur import recipes
from unspur.data.custom import table
from unspur.data.splits import Split
from unspur.errors import DataError, ModelError, RecipeError, StoreError
from unspur.models import limit_weights
from unspur.runs.suspects_csv import read_suspects, write_suspects
from unspur.stages.suspects import Suspects
from unspur.store import Workspace, workspace
from unspur.store.artifacts import log_checksum

from .desk import Desk

NAMES = ("a\rb.png", "c\n.png", "d\u2028e.png", "f\x0bg.png", "h\r\n,i.png")


def test_names_with_line_breaks_are_read_back_from_suspects_csv(tmp_path: Path) -> None:
    part = Split(torch.zeros(5, 3, 2, 2, dtype=torch.uint8), torch.zeros(5).long(), NAMES)
    flags = torch.tensor([True, False, True, False, True])
    suspects = Suspects(torch.arange(5.0), flags, torch.zeros(5).long())
    write_suspects(tmp_path / "s.csv", part, ("cat", "dog"), suspects)
    assert torch.equal(read_suspects(tmp_path / "s.csv", NAMES).conflict, flags)


@pytest.mark.parametrize("name", NAMES)
def test_a_table_keeps_line_breaks_within_quotes(tmp_path: Path, name: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(f'path,label\n"{name}",cat\nx.png,dog\n'.encode())
    assert [row.path.name for row in table.list_images(path).rows] == [name, "x.png"]


@pytest.mark.parametrize("text", ["path,{0}\na,b\n", "path,label,flag\n{0},cat,\n"])
def test_a_cell_that_is_too_long_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text.format("x" * 200_000))
    with pytest.raises(DataError, match=r"t\.csv.*CSV row"):
        table.list_images(path)
    with pytest.raises(DataError, match=r"t\.csv.*CSV row"):
        read_suspects(path, ["a"])


def test_settings_that_are_nested_too_deeply_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="nested too deeply"):
        recipes.load("demo", recipes.parse_changes([".".join("a" * 3000) + "=1"]))


@pytest.mark.parametrize(
    "builder",
    [
        {"name": "convnet", "options": {"width": 2000}},
        {"name": "convnet", "options": {"width": 10**9}},
        {"name": "nothing", "options": {}},
    ],
)
def test_a_network_larger_than_its_weights_is_not_built(desk: Desk, builder: dict) -> None:  # type: ignore[type-arg]
    path = desk.run / "model.json"
    before = json.loads(path.read_bytes())
    try:
        edit(path, builder=builder)
        with pytest.raises(ModelError, match=r"model\.json: its network cannot be built"):
            unspur.load(desk.run)
    finally:
        edit(path, **before)
    assert unspur.load(desk.run)


def test_an_input_that_fills_the_memory_is_refused(desk: Desk) -> None:
    path = desk.run / "model.json"
    before = json.loads(path.read_bytes())
    try:
        edit(path, input={**before["input"], "shape": [3, 65536, 65536]})
        with pytest.raises(StoreError, match=r"model\.json is damaged.*at most"):
            unspur.load(desk.run)
    finally:
        edit(path, **before)


def test_weights_are_counted_as_a_network_is_built() -> None:
    with limit_weights(110):
        nn.Linear(10, 10)
    with limit_weights(109), pytest.raises(ModelError, match="more than 109 weights"):
        nn.Linear(10, 10)
    nn.Linear(10, 10)  # the limit no longer applies


def test_the_log_is_on_disk_when_a_checkpoint_records_its_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    work = Workspace(tmp_path / "work.partial")
    monkeypatch.setattr(workspace, "sync_file", lambda path: synced.append(path.name))
    work.log({"step": 1})
    work.checkpoint({"w": torch.zeros(2)}, {"step": 1})
    assert synced == ["log.jsonl"]


def test_a_log_that_cannot_be_read_is_not_sealed_as_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path) -> bytes:
        raise OSError(5, "Input/output error", str(path))

    (tmp_path / "log.jsonl").write_text("{}\n")
    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(OSError, match="Input/output"):
        log_checksum(tmp_path)


def test_a_page_removes_temporary_files_of_a_killed_process(desk: Desk) -> None:
    left = desk.run / "report.html.0123abcd.tmp"
    other = (
        desk.run / "model.json.0123abcd.tmp"
    )  # removed by the next process that writes the folder
    for path in (left, other):
        path.write_text("half a page")
    unspur.report(desk.run)
    assert (left.exists(), other.exists()) == (False, True)
    other.unlink()
    assert not list(desk.run.glob("*.lock"))
