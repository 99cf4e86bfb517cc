"""Artifacts are found by their ingredients, complete or not at all, whatever happens to the disk."""

import errno
import json
import multiprocessing
import os
import re
import time
import warnings
from pathlib import Path

import pytest
import torch

from toys import TinyNet, resident, same, shapes_set
from unspur import store
from unspur.errors import StoreError
from unspur.methods import ERM
from unspur.store import (
    Store,
    Workspace,
    artifact_store,
    artifacts,
    atomic,
    key_of,
    open_artifact,
)
from unspur.training import sampling
from unspur.training.fit_options import FitOptions, Optimiser
from unspur.training.loop import fit

INGREDIENTS = {
    "stage": "mine",
    "version": 1,
    "settings": {"steps": 10, "rate": 0.1, "how": "gce", "betas": [0.9, 0.99]},
    "seed": 0,
    "parents": {"pretrain": "pretrain-0123456789abcdef"},
    "device": "cpu",
    "precision": "fp32",
}
TENSORS = {"weight": torch.arange(12.0).reshape(3, 4), "keep": torch.tensor([True, False])}
FACTS = {"flagged": 3, "share": 0.25, "nothing": None, "layers": {"conv.weight": 1.0}}


class Work:
    """Work that counts how often it is called."""

    def __init__(self, tensors=TENSORS, facts=FACTS):
        self.tensors, self.facts, self.done = tensors, facts, 0

    def __call__(self, workspace):
        self.done += 1
        workspace.log({"step": 1, "loss": 0.5})
        return self.tensors, self.facts


# Keys


def test_keys_do_not_change_between_versions():
    assert key_of(INGREDIENTS) == "b5c4516effad8ecc"


def test_keys_do_not_depend_on_the_order_of_the_ingredients():
    turned = dict(reversed(INGREDIENTS.items()))
    turned["settings"] = dict(reversed(INGREDIENTS["settings"].items()))
    assert list(turned) != list(INGREDIENTS)
    assert key_of(turned) == key_of(INGREDIENTS)


@pytest.mark.parametrize(
    "change",
    [
        {"stage": "prune"},
        {"version": 2},
        {"settings": {**INGREDIENTS["settings"], "rate": 0.1 + 2**-56}},
        {"settings": {**INGREDIENTS["settings"], "how": "oracle"}},
        {"settings": {**INGREDIENTS["settings"], "betas": [0.99, 0.9]}},
        {"seed": 1},
        {"parents": {"pretrain": "pretrain-0123456789abcdee"}},
        {"parents": {"mine": "pretrain-0123456789abcdef"}},
        {"device": "cuda"},
        {"precision": "tf32"},
        {"more": None},
    ],
    ids=lambda change: "-".join(change),
)
def test_keys_depend_on_every_ingredient(change):
    assert key_of({**INGREDIENTS, **change}) != key_of(INGREDIENTS)


# Computing and finding


def test_work_is_done_once(tmp_path):
    work = Work()
    first = Store(tmp_path).make(INGREDIENTS, work)
    second = Store(tmp_path).make(INGREDIENTS, work)
    assert work.done == 1
    for artifact in (first, second):
        assert same(artifact.tensors, TENSORS)
        assert artifact.facts == FACTS
        assert artifact.log == [{"step": 1, "loss": 0.5}]
        assert artifact.path == tmp_path / f"mine-{artifact.key}"
    assert second.about["ingredients"] == INGREDIENTS
    assert {"torch", "unspur", "python", "gpu", "cpu"} <= second.about["with"].keys()


def test_other_ingredients_give_another_artifact(tmp_path):
    work = Work()
    Store(tmp_path).make(INGREDIENTS, work)
    Store(tmp_path).make({**INGREDIENTS, "seed": 1}, work)
    assert work.done == 2
    assert len(list(Store(tmp_path).artifacts())) == 2


def test_nothing_is_found_in_a_missing_store(tmp_path):
    empty = Store(tmp_path / "not" / "there")
    assert empty.find(INGREDIENTS) is None
    assert list(empty.artifacts()) == []
    assert not empty.root.exists()


def test_a_finished_artifact_leaves_no_other_files(tmp_path):
    Store(tmp_path).make(INGREDIENTS, Work())
    (folder,) = tmp_path.iterdir()
    assert folder.is_dir()
    assert {p.name for p in folder.iterdir()} == {
        "tensors.safetensors",
        "artifact.json",
        "log.jsonl",
    }


def test_work_that_fails_leaves_no_artifact(tmp_path):
    def fails(workspace):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        Store(tmp_path).make(INGREDIENTS, fails)
    assert Store(tmp_path).find(INGREDIENTS) is None
    work = Work()
    assert same(Store(tmp_path).make(INGREDIENTS, work).tensors, TENSORS)
    assert work.done == 1


def test_tensors_of_every_kind_come_back(tmp_path):
    base = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    tensors = {
        "bool": base > 0,
        "int64": torch.tensor([2**62, -1]),
        "uint8": torch.arange(256, dtype=torch.uint8),
        "bf16": base.bfloat16(),
        "f64": base.double() / 3,
        "scalar": torch.tensor(3.5),
        "empty": torch.zeros(0, 3),
        "turned": base.T,
        "strided": base[:, ::2],
        "not a number": torch.tensor([torch.nan, torch.inf, -0.0]),
        "needs grad": base.clone().requires_grad_(),
        "channels last": torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
    }
    path = tmp_path / "t.safetensors"
    store.write_tensors(path, tensors)
    assert same(store.read_tensors(path), tensors)


@pytest.mark.parametrize(
    "share",
    [
        lambda a: a,
        lambda a: a.view(2, 6),
        lambda a: a.detach(),
        lambda a: a[:6],
        lambda a: a[6:],
        lambda a: a[:0],
    ],
    ids=["itself", "view", "detached", "head", "tail", "empty"],
)
def test_tensors_that_share_memory_are_written(tmp_path, share):
    base = torch.arange(12.0)
    tensors = {"base": base, "other": share(base), "again": share(base)}
    path = tmp_path / "t.safetensors"
    store.write_tensors(path, tensors)
    assert same(store.read_tensors(path), tensors)


def test_a_folder_is_measured_while_a_run_changes_it(tmp_path, monkeypatch):
    (tmp_path / "a.partial").mkdir()
    (tmp_path / "kept").write_bytes(b"1234")
    scan = os.scandir

    def rename_first(path):
        if str(path).endswith(".partial"):
            os.rename(path, tmp_path / "a")
        return scan(path)

    monkeypatch.setattr(os, "scandir", rename_first)
    assert store.folder_size(tmp_path) == 4


def test_folders_are_measured_and_removed(tmp_path):
    path = Store(tmp_path).make(INGREDIENTS, Work()).path
    Store(tmp_path).make({**INGREDIENTS, "seed": 1}, Work())
    assert store.folder_size(path) == sum(f.stat().st_size for f in path.iterdir())
    store.remove(path)
    (left,) = Store(tmp_path).artifacts()
    assert open_artifact(left).about["ingredients"]["seed"] == 1
    assert Store(tmp_path).find(INGREDIENTS) is None


# Damage


def flip(path, where):
    """Flip one bit; `where` is a fraction of the file's length."""
    data = bytearray(path.read_bytes())
    data[int(where * (len(data) - 1))] ^= 4
    path.write_bytes(bytes(data))


def cut(path, where):
    os.truncate(path, int(where * path.stat().st_size))


DAMAGES = {
    **{f"bit of tensors at {w}": ("tensors.safetensors", flip, w) for w in (0, 0.1, 0.6, 1)},
    **{f"bit of facts at {w}": ("artifact.json", flip, w) for w in (0, 0.2, 0.5, 0.9)},
    **{f"tensors cut to {w}": ("tensors.safetensors", cut, w) for w in (0, 0.5, 0.99)},
    **{f"facts cut to {w}": ("artifact.json", cut, w) for w in (0, 0.5, 0.99)},
    "no tensors": ("tensors.safetensors", lambda path, _: path.unlink(), 0),
    "no facts": ("artifact.json", lambda path, _: path.unlink(), 0),
    "other JSON": ("artifact.json", lambda path, _: path.write_text("[1, 2]"), 0),
    "empty JSON": ("artifact.json", lambda path, _: path.write_text("{}"), 0),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_artifact_is_renamed_and_computed_again(tmp_path, damage):
    other = Store(tmp_path).make({**INGREDIENTS, "seed": 1}, Work())
    path = Store(tmp_path).make(INGREDIENTS, Work()).path
    name, hurt, where = DAMAGES[damage]
    hurt(path / name, where)
    left = {f.name: f.read_bytes() for f in path.iterdir()}
    work = Work()
    with pytest.warns(UserWarning, match="mine-.*damaged.*again"):
        again = Store(tmp_path).make(INGREDIENTS, work)
    assert work.done == 1
    assert same(again.tensors, TENSORS)
    assert open_artifact(path).facts == FACTS
    (aside,) = tmp_path.glob("*.damaged-*")
    assert {f.name: f.read_bytes() for f in aside.iterdir()} == left
    assert same(open_artifact(other.path).tensors, TENSORS)
    Store(tmp_path).make(INGREDIENTS, work)
    assert work.done == 1


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EACCES, errno.ESTALE])
def test_an_artifact_that_cannot_be_read_now_is_not_damaged(tmp_path, monkeypatch, code):
    path = Store(tmp_path).make(INGREDIENTS, Work()).path

    def fails(file):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(artifacts, "file_checksum", fails)
        with pytest.raises(StoreError, match=r"cannot be read .* was left as it is"):
            Store(tmp_path).make(INGREDIENTS, Work())
    assert Store(tmp_path).find(INGREDIENTS).path == path
    assert list(tmp_path.glob("*.damaged-*")) == []


def test_every_flipped_bit_of_the_facts_is_detected(tmp_path):
    """A flipped bit is detected, or it does not change the content."""
    path = Store(tmp_path).make(INGREDIENTS, Work()).path
    whole = (path / "artifact.json").read_bytes()
    about = open_artifact(path).about
    for place in range(0, len(whole), 7):
        data = bytearray(whole)
        data[place] ^= 1 << (place % 8)
        (path / "artifact.json").write_bytes(bytes(data))
        try:
            found = open_artifact(path)
        except StoreError:
            continue
        assert found.about == about


# Work in progress


PLAN = FitOptions(steps=20, optimiser=Optimiser(rate=1e-2), log_every=5, checkpoint_every=6)
SPLITS = shapes_set()


def trains(workspace, die_at=None):
    """Train a toy in a workspace; optionally die right before the checkpoint of a step is written."""
    torch.manual_seed(0)
    method = ERM(TinyNet())
    if die_at is not None:
        workspace.checkpoint = dying(workspace.checkpoint, die_at)
    fit(
        method,
        resident(SPLITS),
        sampling.Passes(torch.arange(240), batch=16, seed=1),
        PLAN,
        checkpointer=workspace,
    )
    return dict(method.state_dict()), {}


class DiedError(Exception):
    """Simulates kill -9."""


def dying(checkpoint, at):
    def keep(tensors, facts):
        if facts["step"] == at:
            raise DiedError
        checkpoint(tensors, facts)

    return keep


def uninterrupted(folder):
    return Store(folder).make(INGREDIENTS, trains)


def steps_of(folder):
    return [json.loads(line)["step"] for line in (folder / "log.jsonl").read_text().splitlines()]


def rows(artifact):
    return [{k: v for k, v in row.items() if k != "seconds"} for row in artifact.log]


@pytest.fixture
def died(tmp_path):
    """Return the folder of an interrupted stage: its checkpoint is of step 12, its log goes up to step 18."""
    with pytest.raises(DiedError):
        Store(tmp_path).make(INGREDIENTS, lambda workspace: trains(workspace, die_at=18))
    (partial,) = Store(tmp_path).artifacts()
    assert partial.name.endswith(".partial")
    assert steps_of(partial)[-1] == 18
    return partial


def finished(partial, tmp_path_factory):
    """Finish an interrupted stage, and check that the artifact equals that of an uninterrupted one."""
    resumed = Store(partial.parent).make(INGREDIENTS, trains)
    whole = uninterrupted(tmp_path_factory.mktemp("whole"))
    assert same(resumed.tensors, whole.tensors)
    assert rows(resumed) == rows(whole)
    assert not partial.exists()
    assert {p.name for p in resumed.path.iterdir()} == {p.name for p in whole.path.iterdir()}
    return resumed


def test_work_continues_from_its_checkpoint(died, tmp_path_factory):
    tensors, facts = Workspace(died).resume()
    assert facts["step"] == 12
    assert any(name.startswith("optimiser.") for name in tensors)
    finished(died, tmp_path_factory)


def test_the_log_is_cut_back_to_the_checkpoint(died):
    assert steps_of(died) == [5, 6, 10, 12, 15, 18]
    with open(died / "log.jsonl", "a") as file:
        file.write('{"step": 19, "lo')  # half a line
    Workspace(died).resume()
    assert steps_of(died) == [5, 6, 10, 12]


def test_a_log_that_lost_lines_is_not_filled_up(died):
    """After a power failure the log may be shorter than the checkpoint says, because only that is synced."""
    lines = (died / "log.jsonl").read_bytes().splitlines(keepends=True)
    (died / "log.jsonl").write_bytes(b"".join(lines[:2]))
    Workspace(died).resume()
    assert steps_of(died) == [5, 6]


def test_time_spent_before_an_interruption_counts(tmp_path):
    workspace = Workspace(tmp_path / "w")
    workspace.began -= 100
    workspace.checkpoint({"a": torch.zeros(1)}, {"step": 1})
    again = Workspace(tmp_path / "w")
    again.resume()
    assert 100 <= again.seconds < 190  # not counted twice


CHECKPOINT_DAMAGES = {
    "cut in the tensors": lambda path: cut(path, 0.9),
    "cut in the header": lambda path: os.truncate(path, 100),
    "empty": lambda path: os.truncate(path, 0),
    "garbage": lambda path: path.write_bytes(b"\xff" * 1000),
    "bit of the length": lambda path: flip(path, 0),
    "bit of a name": lambda path: flip_at(path, b"method.model.conv"),
    "bit of the step": lambda path: flip_at(path, b'\\"step\\": 12', 11),
    "bit of the log's length": lambda path: flip_at(path, b'\\"log\\": ', 9),
    "bit of a weight": lambda path: flip(path, 1),
    "bit in the middle": lambda path: flip(path, 0.7),
}


def flip_at(path, text, offset=0):
    data = bytearray(path.read_bytes())
    place = data.index(text) + offset
    data[place] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("damage", CHECKPOINT_DAMAGES)
def test_with_a_damaged_checkpoint_work_starts_over(died, tmp_path_factory, damage):
    CHECKPOINT_DAMAGES[damage](died / "checkpoint.safetensors")
    with pytest.warns(UserWarning, match="damaged; the stage starts over"):
        finished(died, tmp_path_factory)


@pytest.mark.parametrize(
    "name", ["checkpoint.safetensors.0a1b2c3d.tmp", "tensors.safetensors.0a1b2c3d.tmp"]
)
def test_an_incomplete_temporary_file_does_no_harm(died, tmp_path_factory, name):
    (died / name).write_bytes(b"half")
    finished(died, tmp_path_factory)


def test_an_artifact_counts_only_after_the_last_rename(died, tmp_path_factory):
    """Simulates a kill inside `promote`: tensors and facts are written, the checkpoint is deleted."""
    store.write_tensors(died / "tensors.safetensors", TENSORS)
    (died / "artifact.json").write_text("{}")
    (died / "checkpoint.safetensors").unlink()
    finished(died, tmp_path_factory)


def test_an_empty_folder_in_progress_does_no_harm(tmp_path, tmp_path_factory):
    partial = Store(tmp_path).path(INGREDIENTS).with_suffix(".partial")
    partial.mkdir()
    finished(partial, tmp_path_factory)


# A full disk


def full(*args, **kwargs):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


SAYS = r"No space left on device.*free some space"


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_last_checkpoint_intact(tmp_path, monkeypatch, call):
    workspace = Workspace(tmp_path / "w")
    workspace.checkpoint({"a": torch.zeros(3)}, {"step": 1})
    with monkeypatch.context() as patch:
        patch.setattr(atomic.os, call, full)
        with pytest.raises(StoreError, match=SAYS):
            workspace.checkpoint({"a": torch.ones(3)}, {"step": 2})
    tensors, facts = Workspace(tmp_path / "w").resume()
    assert facts["step"] == 1
    assert torch.equal(tensors["a"], torch.zeros(3))


@pytest.mark.parametrize("where", ["log", "checkpoint", "promote"])
def test_a_full_disk_is_explained_and_work_continues_afterwards(
    tmp_path, tmp_path_factory, monkeypatch, where
):
    other = Store(tmp_path).make({**INGREDIENTS, "seed": 1}, Work())
    with monkeypatch.context() as patch:
        patch.setattr(Workspace, where, full)
        with pytest.raises(StoreError, match=SAYS):
            Store(tmp_path).make(INGREDIENTS, trains)
    assert same(open_artifact(other.path).tensors, TENSORS)
    partial = Store(tmp_path).path(INGREDIENTS).with_suffix(".partial")
    finished(partial, tmp_path_factory)


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.EFBIG, "free some space"),
        (errno.EROFS, "--out"),
        (errno.EACCES, "--out"),
    ],
)
def test_a_read_only_disk_and_a_full_disk_have_different_advice(
    tmp_path, monkeypatch, code, advice
):
    def fails(*args, **kwargs):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(atomic.os, "replace", fails)
    with pytest.raises(StoreError, match=f"kept; .*{advice}"):
        store.write_bytes(tmp_path / "a", b"1")


def test_other_disk_errors_are_passed_on(tmp_path, monkeypatch):
    def broken(*args):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(atomic.os, "replace", broken)
    with pytest.raises(OSError, match="Input/output error"):
        store.write_bytes(tmp_path / "a", b"a")


def test_a_store_that_cannot_be_written_is_explained(tmp_path, monkeypatch):
    def denied(*args, **kwargs):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "mkdir", denied)
    with pytest.raises(StoreError, match=r"cannot write .*Permission denied"):
        Store(tmp_path / "store").make(INGREDIENTS, Work())


# Two processes at the same time


def slow_work(folder, workspace):
    with open(folder / "count", "a") as file:
        file.write("x")
    (folder / f"began-{os.getpid()}").touch()
    while not (folder / "go").exists():
        time.sleep(0.01)
    return TENSORS, FACTS


def make_it(folder, name, answers):
    (folder / f"ready-{name}").touch()
    artifact = Store(folder / "store").make(INGREDIENTS, lambda w: slow_work(folder, w))
    answers.put((name, same(artifact.tensors, TENSORS), artifact.facts))


def until(condition, seconds=300):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def test_two_processes_do_the_work_once(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    answers = spawn.Queue()
    processes = [spawn.Process(target=make_it, args=(tmp_path, n, answers)) for n in "ab"]
    for process in processes:
        process.start()
    try:
        until(lambda: len(list(tmp_path.glob("ready-*"))) == 2)
        time.sleep(0.2)  # both processes are working now, and one has the lock
        (tmp_path / "go").touch()
        found = sorted(answers.get(timeout=300) for _ in processes)
    finally:
        (tmp_path / "go").touch()
        for process in processes:
            process.join(30)
    assert found == [("a", True, FACTS), ("b", True, FACTS)]
    assert (tmp_path / "count").read_text() == "x"
    (folder,) = (tmp_path / "store").iterdir()
    assert folder == Store(tmp_path / "store").path(INGREDIENTS)


# No pickle


def test_nothing_is_pickled():
    """Loading from disk must never run code."""
    source = Path(store.__file__).parents[1]
    pattern = re.compile(
        r"\bimport (shelve|joblib|dill)|pickle\.(load|dump|Unpickler)|np\.load\b"
        r"|^\s*torch\.save\(|(?<!safetensors\.)torch\.load\((?!.*weights_only=True)",
        re.MULTILINE,
    )
    sent = (
        source / "parallel" / "local_sharing.py"
    )  # sends between processes of one job, never to disk
    files = [path for path in source.rglob("*.py") if path != sent]
    assert len(files) > 20
    assert [str(f.relative_to(source)) for f in files if pattern.search(f.read_text())] == []


def test_reading_an_undamaged_store_gives_no_warning(tmp_path):
    Store(tmp_path).make(INGREDIENTS, Work())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Store(tmp_path).find(INGREDIENTS) is not None


# Versions


@pytest.mark.parametrize("name", ["torch", "unspur"])
def test_an_artifact_of_another_version_is_used_with_a_warning(tmp_path, monkeypatch, name):
    kept = Store(tmp_path)
    stored = kept.make(INGREDIENTS, lambda workspace: (TENSORS, {}))
    was = store.environment()
    monkeypatch.setattr(artifact_store, "environment", lambda: {**was, name: "99.0"})
    with pytest.warns(UserWarning, match=re.escape(f"with {name} {was[name]}")):
        found = kept.find(INGREDIENTS)
    assert found.path == stored.path
