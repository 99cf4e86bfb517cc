"""A stage in progress: its checkpoint, its log, and its promotion to an artifact."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import StoreError
from .artifacts import FACTS, LOG, TENSORS, Artifact, environment, log_checksum, open_artifact, seal
from .atomic import read_tensors, sweep, sync_file, sync_folder, write_bytes, write_tensors
from .finite import check_finite
from .hashing import digest
from .json_lines import append_row, cut_incomplete
from .removal import hold

if TYPE_CHECKING:
    from torch import Tensor

CHECKPOINT = "checkpoint.safetensors"


class Workspace:
    """A stage in progress: its checkpoint and its log. `finish` is called with the path of the artifact."""

    def __init__(self, path: Path, *, finish: Callable[[Path], None] = lambda path: None):
        self.path, self.finish = path, finish
        self.path.mkdir(parents=True, exist_ok=True)
        sweep(self.path)
        self.spent = 0.0
        self.began = time.perf_counter()
        self.appends = False  # whether this process has written to the log
        self.beside = 1  # how many trainings share the measured time
        self.on_row: Callable[[Mapping[str, Any]], None] | None = (
            None  # called with rows of the log
        )

    @property
    def seconds(self) -> float:
        """The working time of the stage, without interruptions."""
        return self.spent + time.perf_counter() - self.began

    def resume(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Return the last checkpoint, and cut the log back to it; ignore a damaged one, with a warning."""
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
        _warn_of_threads(file, facts.get("threads"))
        return tensors, facts

    def checkpoint(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Write everything that is needed to continue from here to one file."""
        sync_file(self.path / LOG)  # the checkpoint records the length of the log
        size = (self.path / LOG).stat().st_size if (self.path / LOG).exists() else 0
        about = {"log": size, "seconds": self.seconds}
        if not any(tensor.is_cuda for tensor in tensors.values()):
            about["threads"] = _threads()
        text = json.dumps({**facts, **about})
        checksum = digest(text + " ".join(sorted(tensors)), *_sorted(tensors))
        write_tensors(self.path / CHECKPOINT, tensors, {"facts": text, "sha256": checksum})

    def log(self, row: Mapping[str, Any]) -> None:
        """Append a row to the log. The incomplete line of a killed process is removed first."""
        if not self.appends:
            cut_incomplete(self.path / LOG)
            self.appends = True
        append_row(self.path / LOG, row)
        if self.on_row is not None:
            self.on_row(row)

    def promote(
        self,
        target: Path,
        ingredients: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        facts: Mapping[str, Any],
    ) -> Artifact:
        """Store the result as an artifact, atomically; raise if it has values that are not finite."""
        check_finite(f"the result of {target.name.partition('-')[0]}", tensors, facts)
        cut_incomplete(self.path / LOG)
        sync_file(self.path / LOG)
        checksum = write_tensors(self.path / TENSORS, tensors)
        about = {
            "ingredients": ingredients,
            "tensors_sha256": checksum,
            "log_sha256": log_checksum(self.path),
            "facts": facts,
            "seconds": round(self.seconds, 3),
            "beside": self.beside,
            "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "with": environment(),
        }
        about = json.loads(json.dumps(about))  # with the types that it has when it is read
        about["sha256"] = seal(about)
        write_bytes(self.path / FACTS, json.dumps(about, indent=1).encode())
        (self.path / CHECKPOINT).unlink(missing_ok=True)
        os.rename(self.path, target)
        sync_folder(target.parent)
        artifact = open_artifact(target)
        self.finish(target)
        hold(artifact)
        return artifact


def _warn_of_threads(path: Path, then: int | None) -> None:
    """Warn if a stage continues with another number of threads, because its bits depend on it."""
    if then is not None and then != (now := _threads()):
        warnings.warn(
            f"{path.parent.name} was started with {then} threads and continues with {now}: its last bits "
            f"differ from those of an uninterrupted run. Set OMP_NUM_THREADS={then} for the same bits.",
            stacklevel=3,
        )


def _read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors and facts of a checkpoint, and verify its checksum."""
    import safetensors

    tensors = read_tensors(path)
    with safetensors.safe_open(path, framework="pt") as file:
        about = file.metadata() or {}
    text = about.get("facts", "")
    if about.get("sha256") != digest(text + " ".join(sorted(tensors)), *_sorted(tensors)):
        raise StoreError(f"{path} is damaged: its checksum differs.")
    return tensors, json.loads(text)


def steps_done(target: Path) -> int:
    """Return the step of the last checkpoint of the training that will be stored at `target`, or 0."""
    import safetensors

    try:
        with safetensors.safe_open(
            target.with_suffix(".partial") / CHECKPOINT, framework="np"
        ) as file:
            return int(json.loads((file.metadata() or {})["facts"])["step"])
    except (OSError, safetensors.SafetensorError, ValueError, LookupError, TypeError):
        return 0


def _threads() -> int:
    import torch

    return torch.get_num_threads()


def _sorted(tensors: Mapping[str, Tensor]) -> list[Tensor]:
    return [tensors[name] for name in sorted(tensors)]
