"""A store in an object store: another machine finds a complete artifact, or none."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from bench_desk import open_desk
from unspur.errors import StoreError, UsageError
from unspur.store import Workspace, open_store
from unspur.store.addresses import is_address, read_address, replace_suffix, write_address
from unspur.store.remote_store import RemoteStore

fsspec = pytest.importorskip("fsspec", reason="the extra `cloud` is not installed")

TOY = {"stage": "toy", "key": 1}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Start a local S3 server and return its address."""
    pytest.importorskip("s3fs", reason="the extra `cloud` is not installed")
    moto = pytest.importorskip("moto.server", reason="moto is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        running = moto.ThreadedMotoServer(port=0, verbose=False)
        running.start()
        host, port = running.get_host_and_port()
        yield f"http://{host}:{port}"
        running.stop()


@pytest.fixture(params=["memory", "file", "s3"])
def address(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[str]:
    """Return the address of an empty folder in an object store."""
    monkeypatch.setenv("UNSPUR_CACHE", str(tmp_path / "cache"))
    name = tmp_path.name.replace("_", "-").lower()
    if request.param == "s3":
        keys = {"key": "testing", "secret": "testing"}
        options = {"endpoint_url": request.getfixturevalue("server"), **keys}
        monkeypatch.setitem(fsspec.config.conf, "s3", options)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        fsspec.filesystem("s3").makedirs("unspur-tests", exist_ok=True)
        yield f"s3://unspur-tests/{name}"
    elif request.param == "file":
        yield (tmp_path / "new" / "folder").as_uri()
    else:
        yield f"memory://{name}"


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return a function that makes this process look like another machine."""

    def move(name: str) -> None:
        monkeypatch.setenv("UNSPUR_CACHE", str(tmp_path / name))
        fsspec.filesystem("s3").invalidate_cache() if "s3" in fsspec.config.conf else None

    return move


def count_work(made: list[int]) -> Any:
    def work(workspace: Workspace) -> tuple[Any, Any]:
        workspace.log({"step": 1})
        made.append(1)
        return {"value": torch.arange(4.0)}, {"fact": 7}

    return work


def forbid(workspace: Workspace) -> tuple[Any, Any]:
    raise AssertionError("this is stored already")


def test_another_machine_finds_the_artifact(address: str, elsewhere: Any) -> None:
    made: list[int] = []
    open_store(address).make(TOY, count_work(made))
    elsewhere("second")
    store = open_store(address)
    assert store.has(store.path(TOY))
    assert not store.path(TOY).exists()
    artifact = store.make(TOY, forbid)
    assert artifact.tensors["value"].tolist() == [0, 1, 2, 3]
    assert artifact.facts == {"fact": 7}
    assert artifact.log == [{"step": 1}]
    assert made == [1]


def test_an_interrupted_upload_is_not_an_artifact(
    address: str, elsewhere: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RemoteStore(address)
    put = store.filesystem.put_file

    def fail(source: str, target: str, **more: Any) -> None:
        if target.endswith("artifact.json"):
            raise OSError("the network is gone")
        put(source, target, **more)

    with monkeypatch.context() as patch:
        patch.setattr(store.filesystem, "put_file", fail)
        with pytest.raises(StoreError, match="cannot be reached"):
            store.make(TOY, count_work([]))
    elsewhere("second")
    assert not open_store(address).has(open_store(address).path(TOY))
    elsewhere("cache")
    open_store(address).make(TOY, forbid)  # uploads the local artifact
    elsewhere("third")
    open_store(address).make(TOY, forbid)


def test_a_damaged_copy_is_refused(address: str, elsewhere: Any) -> None:
    store = open_store(address)
    store.make(TOY, count_work([]))
    name = f"{address}/{store.path(TOY).name}/tensors.safetensors"
    write_address(name, (read_address(name) or b"")[:-1] + b"x")
    elsewhere("second")
    with pytest.raises(StoreError, match="its checksum differs") as caught:
        open_store(address).make(TOY, forbid)
    assert "Remove it there" in str(caught.value)
    assert [*open_store(address).artifacts()] == []


def test_a_bench_with_store_and_results_at_an_address(
    address: str, elsewhere: Any, tmp_path: Path
) -> None:
    desk = open_desk(tmp_path)
    desk.run(*desk.command("--out", "plain.json", "-q"))
    out = f"{address}/res/table.json"
    for number in (1, 2):
        elsewhere(f"machine-{number}")
        desk.run(
            *desk.command("--out", out, "-q", "--part", f"{number}/2", store=f"{address}/store")
        )
    written = json.loads(read_address(out) or b"")
    (tmp_path / "remote.json").write_text(json.dumps(written))
    assert desk.numbers("remote.json") == desk.numbers("plain.json")
    assert b"| recipe |" in (read_address(f"{address}/res/table.md") or b"")


class NoCredentialsError(Exception):
    """An error of botocore, which is not an OSError."""


def test_every_error_of_an_object_store_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: Any, **kwargs: Any) -> None:
        raise NoCredentialsError("Unable to locate credentials")

    remote = RemoteStore("memory://locked/store")
    for name in ("exists", "cat_file", "pipe_file"):
        monkeypatch.setattr(type(remote.filesystem), name, fails)
    for call in (
        lambda: remote.find({"stage": "mine"}),
        lambda: read_address("memory://locked/a"),
        lambda: write_address("memory://locked/a", b""),
    ):
        with pytest.raises(StoreError, match=r"cannot be reached .*credentials"):
            call()


def test_addresses_and_paths() -> None:
    assert is_address("s3://bucket/x")
    assert not is_address("runs/store")
    assert not is_address(Path("s3://bucket"))
    assert not is_address("C:\\store")
    assert replace_suffix("s3://b/x.y/table.json", ".md") == "s3://b/x.y/table.md"
    assert replace_suffix(Path("a/table.json"), ".md") == Path("a/table.md")
    assert replace_suffix(Path("a/table"), ".md") == Path("a/table.md")
    assert replace_suffix(Path("a/ratio-0.5"), ".json") == Path("a/ratio-0.5.json")
    assert replace_suffix("s3://b/ratio-0.5", ".json") == "s3://b/ratio-0.5.json"
    assert read_address("memory://nowhere/at/all") is None
    with pytest.raises(UsageError, match="pip install"):
        open_store("unheard://of")
