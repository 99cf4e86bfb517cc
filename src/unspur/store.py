"""Artifacts on disk, found again by what they were made of.

An artifact is a folder `<stage>-<key>/` with `tensors.safetensors`, `artifact.json` and `log.jsonl`. The
key is a hash of its ingredients: the stage and its version, the stage's settings, the keys of its parents,
the kind of device, the precision. A stage in progress lives in `<stage>-<key>.partial/`, with a checkpoint
that is written beside the old one and renamed; the finished folder is synced and renamed into place. So
whatever moment a process dies at, a name without a suffix is a whole artifact.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import platform
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from .data.splits import digest
from .errors import StoreError
from .version import VERSION

TENSORS, FACTS, LOG = "tensors.safetensors", "artifact.json", "log.jsonl"
CHECKPOINT = "checkpoint.safetensors"

Work = Callable[["Workspace"], tuple[Mapping[str, Tensor], Mapping[str, Any]]]


def key_of(ingredients: Mapping[str, Any]) -> str:
    """The name of what these ingredients make."""
    text = json.dumps(ingredients, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Artifact:
    """A finished piece of work: tensors and facts."""

    path: Path
    key: str
    facts: dict[str, Any]
    about: dict[str, Any]

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        return read_tensors(self.path / TENSORS)

    @property
    def log(self) -> list[dict[str, Any]]:
        """What was logged while it was made."""
        lines = (self.path / LOG).read_text().splitlines() if (self.path / LOG).exists() else []
        return [json.loads(line) for line in lines]


class Store:
    """A folder of artifacts."""

    def __init__(self, root: Path):
        self.root = root

    def path(self, ingredients: Mapping[str, Any]) -> Path:
        return self.root / f"{ingredients['stage']}-{key_of(ingredients)}"

    def find(self, ingredients: Mapping[str, Any]) -> Artifact | None:
        """The stored artifact; one that is damaged is set aside with a warning, to be made again."""
        path = self.path(ingredients)
        if not path.exists():
            return None
        try:
            artifact = open_artifact(path)
            _warn_of_versions(artifact)
            return artifact
        except StoreError as error:
            aside = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
            with contextlib.suppress(FileNotFoundError):  # another process was first
                path.rename(aside)
            warnings.warn(f"{error} It is set aside as {aside.name} and made again.", stacklevel=2)
            return None

    def make(self, ingredients: Mapping[str, Any], work: Work) -> Artifact:
        """The artifact of these ingredients: found, or made by `work` and kept."""
        with self.making([ingredients]) as (found, open_):
            for path, workspace in open_.items():
                found[path] = workspace.promote(path, ingredients, *work(workspace))
        return found[self.path(ingredients)]

    @contextlib.contextmanager
    def making(
        self, wanted: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[dict[Path, Artifact], dict[Path, Workspace]]]:
        """What is stored of several artifacts, and workspaces for the rest; both by path.

        Whoever promotes a workspace adds the artifact to the first. Other processes wait meanwhile.
        """
        found: dict[Path, Artifact] = {}
        missing: dict[Path, Workspace] = {}
        with _disk_trouble(self.root), contextlib.ExitStack() as locks:
            # In one order for all processes, so that no two wait for each other.
            for path, ingredients in sorted({self.path(i): i for i in wanted}.items()):
                artifact = self.find(ingredients)
                if artifact is None:
                    locks.enter_context(locked(path))
                    artifact = self.find(ingredients)  # made by another process meanwhile
                if artifact is None:
                    missing[path] = Workspace(path.with_suffix(".partial"))
                else:
                    found[path] = artifact
            yield found, missing

    def artifacts(self) -> Iterator[Path]:
        """Every folder of the store, finished, in progress or damaged."""
        if self.root.exists():
            yield from sorted(p for p in self.root.iterdir() if p.is_dir())


class Workspace:
    """A stage in progress: its checkpoint and its log."""

    def __init__(self, path: Path):
        self.path = path
        self.path.mkdir(parents=True, exist_ok=True)
        self.spent = 0.0
        self.began = time.perf_counter()
        self.beside = 1  # how many were made at once, in the same time

    @property
    def seconds(self) -> float:
        """How long the stage has been worked on, interruptions left out."""
        return self.spent + time.perf_counter() - self.began

    def resume(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The last checkpoint, the log cut back to it; a damaged one is dropped with a warning."""
        file = self.path / CHECKPOINT
        facts: dict[str, Any] = {"log": 0}
        tensors = None
        if file.exists():
            try:
                tensors, facts = _read_checkpoint(file)
            except StoreError:
                warnings.warn(f"{file} is damaged; the stage starts over.", stacklevel=2)
        if (log := self.path / LOG).exists():
            os.truncate(log, min(facts["log"], log.stat().st_size))
        if tensors is None:
            return None
        self.spent = facts["seconds"]
        return tensors, facts

    def checkpoint(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Keep all that is needed to go on from here, in one file."""
        size = (self.path / LOG).stat().st_size if (self.path / LOG).exists() else 0
        text = json.dumps({**facts, "log": size, "seconds": self.seconds})
        checksum = digest(text + " ".join(sorted(tensors)), *_sorted(tensors))
        write_tensors(self.path / CHECKPOINT, tensors, {"facts": text, "sha256": checksum})

    def log(self, row: Mapping[str, Any]) -> None:
        with open(self.path / LOG, "a") as file:
            file.write(json.dumps(row) + "\n")

    def promote(
        self,
        target: Path,
        ingredients: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        facts: Mapping[str, Any],
    ) -> Artifact:
        """Turn the work into an artifact, at once and whole."""
        checksum = write_tensors(self.path / TENSORS, tensors)
        about = {
            "ingredients": ingredients,
            "tensors_sha256": checksum,
            "facts": facts,
            "seconds": round(self.seconds, 3),
            "beside": self.beside,
            "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "with": environment(),
        }
        about = json.loads(json.dumps(about))  # as it will be read back
        about["sha256"] = _seal(about)
        write_bytes(self.path / FACTS, json.dumps(about, indent=1).encode())
        (self.path / CHECKPOINT).unlink(missing_ok=True)
        os.rename(self.path, target)
        _sync_folder(target.parent)
        return open_artifact(target)


def open_artifact(path: Path) -> Artifact:
    """Read an artifact back and check that it is whole."""
    try:
        about = json.loads((path / FACTS).read_bytes())
        seal = about.pop("sha256")
        whole = seal == _seal(about) and about["tensors_sha256"] == _checksum(path / TENSORS)
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise StoreError(f"the artifact {path.name} cannot be read ({error}).") from None
    if not whole:
        raise StoreError(f"the artifact {path.name} is damaged: its checksum differs.")
    return Artifact(path, path.name.rpartition("-")[2], about["facts"], about)


def _warn_of_versions(artifact: Artifact) -> None:
    """Say so where an artifact was made with other versions; they are recorded, not keyed."""
    now, then = environment(), artifact.about["with"]
    others = [f"{name} {then[name]}" for name in ("torch", "unspur") if then[name] != now[name]]
    if others:
        warnings.warn(
            f"{artifact.path.name} was made with {' and '.join(others)}; it is used as it is.",
            stacklevel=3,
        )


def environment() -> dict[str, str]:
    """The versions and the hardware a result was made with."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return {
        "unspur": VERSION,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "gpu": gpu,
        "cpu": f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads",
    }


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None
) -> str:
    """Write a safetensors file, at once and whole; the checksum of its bytes."""
    plain = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    owned: dict[int, str] = {}
    for name, tensor in plain.items():  # safetensors refuses two names for one memory
        if owned.setdefault(tensor.untyped_storage().data_ptr(), name) != name and tensor.numel():
            plain[name] = tensor.clone()
    data = safetensors.torch.save(plain, metadata)
    write_bytes(path, data)
    return hashlib.sha256(data).hexdigest()


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    try:
        return safetensors.torch.load(path.read_bytes())
    except (OSError, safetensors.SafetensorError) as error:
        raise StoreError(f"{path} cannot be read ({error}).") from None


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file beside its place, sync it, and rename it into place."""
    beside = path.with_name(path.name + ".tmp")
    with _disk_trouble(path):
        with open(beside, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        _sync_folder(path.parent)


def make_folder(path: Path) -> None:
    """Make the folder of a result."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot make the folder {path} ({error.strerror}). All that was trained is stored: give the "
            "same command with another --out."
        ) from None


def folder_size(path: Path) -> int:
    """Bytes in a folder."""
    return sum(f.stat().st_size for f in path.rglob("*") if f.is_file())


def remove(path: Path) -> None:
    """Delete a folder of the store; it is renamed first, so half of one never looks whole."""
    doomed = path.with_name(path.name + ".removed")
    path.rename(doomed)
    shutil.rmtree(doomed)


def _read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """A checkpoint's tensors and facts, checked to be whole."""
    tensors = read_tensors(path)
    with safetensors.safe_open(path, framework="pt") as file:
        about = file.metadata() or {}
    text = about.get("facts", "")
    if about.get("sha256") != digest(text + " ".join(sorted(tensors)), *_sorted(tensors)):
        raise StoreError(f"{path} is damaged: its checksum differs.")
    return tensors, json.loads(text)


def _sorted(tensors: Mapping[str, Tensor]) -> list[Tensor]:
    return [tensors[name] for name in sorted(tensors)]


def _seal(about: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def _checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync_folder(path: Path) -> None:
    with contextlib.suppress(OSError):  # not every system lets a folder be opened
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def _disk_trouble(path: Path) -> Iterator[None]:
    """Say what a failed write means for the user."""
    try:
        yield
    except OSError as error:
        full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        if error.errno not in (*full, errno.EROFS, errno.EACCES):
            raise
        advice = "name a folder that can be written (--out, --store)."
        if error.errno in full:
            advice = "free some space (`unspur runs list`, `unspur runs rm`) and give the same command again."
        raise StoreError(
            f"cannot write {path}: {error.strerror}. Finished stages and the last checkpoint are kept; "
            f"{advice}"
        ) from None


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one at a time, of all processes, make or change what is at a path; the others wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # a system without file locks: two runs at once may do the work twice
        yield
        return
    lock = path.with_suffix(".lock")
    while True:
        with open(lock, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not _still_there(
                lock, file.fileno()
            ):  # whoever had it removed it: wait for the new one
                continue
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
            return


def _still_there(path: Path, opened: int) -> bool:
    """Whether an open file is what is at a path now."""
    try:
        return os.path.samestat(path.stat(), os.fstat(opened))
    except FileNotFoundError:
        return False
