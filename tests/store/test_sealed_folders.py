"""Sealed folders, strict JSON, the lock on a folder, and logs with damaged lines."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from unspur import store
from unspur.errors import StoreError
from unspur.store import Store, Workspace, claim, parse_json, read_json, write_bytes
from unspur.store.manifest import MANIFEST, check_folder, folder_kind, mark_unfinished, seal_folder

FILES = {"model.json": b'{"a": 1}\n', "weights.bin": bytes(range(200)), "suspects.csv": b"x,y\n"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    seal_folder(tmp_path, "run", ["model.json", "weights.bin"], editable=["suspects.csv"])
    return tmp_path


# -- the manifest -------------------------------------------------------------------------------------


def test_a_sealed_folder_passes_the_check(folder: Path) -> None:
    assert check_folder(folder, "model.json")
    assert folder_kind(folder) == "run"
    listed = json.loads((folder / MANIFEST).read_text())
    assert listed["files"]["model.json"]["bytes"] == 9
    assert list(listed) == ["format", "kind", "unspur", "complete", "files", "editable", "sha256"]


def test_every_flipped_bit_of_every_sealed_file_is_detected(folder: Path) -> None:
    for name in ("model.json", "weights.bin", MANIFEST):
        data = (folder / name).read_bytes()
        for position in range(0, 8 * len(data), 7):
            damaged = bytearray(data)
            damaged[position // 8] ^= 1 << position % 8
            (folder / name).write_bytes(damaged)
            with pytest.raises(StoreError, match=rf"{name} is damaged.*[Rr]un the command"):
                check_folder(folder, "model.json")
        (folder / name).write_bytes(data)
    assert check_folder(folder, "model.json")


def test_truncated_and_missing_files_are_detected(folder: Path) -> None:
    (folder / "weights.bin").write_bytes(FILES["weights.bin"][:-1])
    with pytest.raises(StoreError, match=r"weights\.bin is damaged \(it has 199 bytes, not 200\)"):
        check_folder(folder, "model.json")
    (folder / "weights.bin").unlink()
    with pytest.raises(StoreError, match=r"weights\.bin is missing\. .* the command of the run"):
        check_folder(folder, "model.json")
    assert check_folder(folder, "model.json", optional=["weights.bin"])
    os.mkfifo(folder / "weights.bin")
    with pytest.raises(StoreError, match=r"weights\.bin is missing"):
        check_folder(folder, "model.json")


def test_an_editable_file_may_be_changed_or_deleted(folder: Path) -> None:
    (folder / "suspects.csv").write_text("something else\n")
    assert check_folder(folder, "model.json")
    (folder / "suspects.csv").unlink()
    assert check_folder(folder, "model.json")


def test_a_folder_without_a_manifest_gives_a_warning(folder: Path) -> None:
    (folder / MANIFEST).unlink()
    with pytest.warns(UserWarning, match=r"has no manifest\.json.*older unspur"):
        assert not check_folder(folder, "model.json")
    assert folder_kind(folder) is None


def test_an_incomplete_folder_is_refused(tmp_path: Path) -> None:
    mark_unfinished(tmp_path, "audit")
    with pytest.raises(StoreError, match=r"is incomplete.*command of the audit"):
        check_folder(tmp_path, "model.json")


def test_a_mark_does_not_replace_a_seal(folder: Path) -> None:
    mark_unfinished(folder, "run")
    assert check_folder(folder, "model.json")


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "", "a/b", ".."])
def test_a_manifest_names_files_of_its_folder_only(tmp_path: Path, name: str) -> None:
    from unspur.store.manifest import _render

    record = {"bytes": 1, "sha256": "0" * 64}
    about = {"format": 1, "kind": "run", "unspur": "0", "complete": True}
    (tmp_path / MANIFEST).write_bytes(_render({**about, "files": {name: record}, "editable": {}}))
    with pytest.raises(StoreError, match=r"manifest\.json is damaged"):
        check_folder(tmp_path, "model.json")


# -- strict JSON --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, "a": 2}', "twice"),
        ('{"a": NaN}', "NaN is not a number"),
        ('{"a": -Infinity}', "-Infinity is not a number"),
        ('{"a": 1e999}', "too large"),
        ('{"a": 1' + "0" * 30 + "}", "too large"),
        ('{"a": ' + "1" * 10_000 + "}", "too large"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"a": "\\ud800"}', "surrogate"),
        (b'{"a": "\xff"}', "utf-8"),
        ("", "Expecting value"),
    ],
)
def test_json_that_unspur_would_not_write_is_refused(text: str | bytes, why: str) -> None:
    with pytest.raises(StoreError, match=f"x.json is damaged.*{why}"):
        parse_json(text, "x.json")


def test_json_that_we_write_is_read() -> None:
    content = {"a": [1, -2.5, True, None, "ü \U0001f600"], "b": {"c": 2**62}}
    assert parse_json(json.dumps(content), "x") == content
    assert parse_json(json.dumps(content, ensure_ascii=False).encode(), "x") == content


@pytest.mark.parametrize("text", ["[]", "3", '"a"', "null"])
def test_a_file_without_a_json_object_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(StoreError, match=r"a\.json is damaged \(it is not a JSON object\)"):
        read_json(tmp_path / "a.json")


def test_a_pipe_in_place_of_a_file_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")
    with pytest.raises(StoreError, match=r"a\.json is missing, or is not a file"):
        read_json(tmp_path / "a.json")


# -- one writer at a time -----------------------------------------------------------------------------


def test_the_error_names_the_process_that_holds_a_folder(tmp_path: Path) -> None:
    with claim(tmp_path), pytest.raises(StoreError) as refused, claim(tmp_path):
        pass
    assert f"is being written by process {os.getpid()} on " in str(refused.value)
    assert ", since " in str(refused.value)
    assert list(tmp_path.iterdir()) == []
    with claim(tmp_path):
        pass


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom unspur.store import claim\n"
        "with claim(Path(sys.argv[1])):\n    os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    (left,) = tmp_path.iterdir()
    assert "process" in left.read_text()
    with claim(tmp_path):
        assert f"process {os.getpid()} " in left.read_text()
    assert not left.exists()


def test_many_writers_of_one_file_leave_one_complete_file(tmp_path: Path) -> None:
    contents = [bytes([n]) * 200_000 for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda data: write_bytes(tmp_path / "a", data), contents * 5))
    assert (tmp_path / "a").read_bytes() in contents
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(store.atomic.os, "fsync", broken)
    with pytest.raises(RuntimeError, match="broken"):
        write_bytes(tmp_path / "a", b"1")
    assert list(tmp_path.iterdir()) == []


# -- logs ---------------------------------------------------------------------------------------------


def artifact_with_log(folder: Path) -> store.Artifact:
    def work(workspace: Workspace) -> tuple[dict[str, torch.Tensor], dict[str, int]]:
        for step in range(3):
            workspace.log({"step": step, "loss": 0.5})
        return {"a": torch.ones(2)}, {"b": 1}

    return Store(folder).make({"stage": "toy"}, work)


@pytest.mark.parametrize(
    "damage",
    [
        b'{"step": 1, "lo\x9ass": 0.5}',
        b'{"step": 1, "los',
        b"[1, 2]",
        b'{"step": "one"}',
        b'{"step": 1' + b"0" * 400 + b"}",
        b"[" * 100_000,
        b"\x00" * 20,
    ],
)
def test_a_damaged_line_of_a_log_is_left_out(tmp_path: Path, damage: bytes) -> None:
    artifact = artifact_with_log(tmp_path)
    lines = (artifact.path / "log.jsonl").read_bytes().splitlines()
    (artifact.path / "log.jsonl").write_bytes(b"\n".join([lines[0], damage, lines[2], b""]))
    again = Store(tmp_path).find({"stage": "toy"})
    assert again is not None
    with pytest.warns(UserWarning, match=r"log\.jsonl is damaged: 1 lines of it"):
        assert [row["step"] for row in again.log] == [0, 2]


def test_a_log_with_changed_numbers_gives_a_warning(tmp_path: Path) -> None:
    artifact = artifact_with_log(tmp_path)
    log = artifact.path / "log.jsonl"
    log.write_bytes(log.read_bytes().replace(b"0.5", b"0.7", 1))
    with pytest.warns(UserWarning, match=r"log\.jsonl is damaged: 0 lines"):
        assert len(artifact.log) == 3


def test_an_incomplete_line_is_removed_before_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_bytes(b'{"step": 1}\n{"ste')
    workspace = Workspace(tmp_path)
    workspace.log({"step": 2})
    workspace.log({"step": 3})
    assert (tmp_path / "log.jsonl").read_text() == '{"step": 1}\n{"step": 2}\n{"step": 3}\n'


def test_the_log_is_synced_when_a_stage_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def watched(handle: int) -> None:
        synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{handle}")))
        fsync(handle)

    monkeypatch.setattr(store.atomic.os, "fsync", watched)
    if not Path("/proc/self/fd").exists():
        pytest.skip("this system does not say which file a handle is")
    artifact_with_log(tmp_path)
    assert "log.jsonl" in synced


def test_random_damage_of_an_artifact_raises_store_error(tmp_path: Path) -> None:
    artifact = artifact_with_log(tmp_path)
    chance = random.Random(0)
    for name in ("artifact.json", "tensors.safetensors"):
        whole = (artifact.path / name).read_bytes()
        for _ in range(150):
            damaged = bytearray(whole)
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            (artifact.path / name).write_bytes(damaged)
            with pytest.raises(StoreError, match=artifact.path.name):
                store.open_artifact(artifact.path)
        (artifact.path / name).write_bytes(whole)
    for text in (b"[" * 100_000, b'{"sha256": 1}', b"null", b"[]", b'"a"'):
        (artifact.path / "artifact.json").write_bytes(text)
        with pytest.raises(StoreError, match=artifact.path.name):
            store.open_artifact(artifact.path)
