"""Artifacts: the stored results of stages.

An artifact is a folder `<stage>-<key>/` with `tensors.safetensors`, `artifact.json` and `log.jsonl`. The
key is a hash of its ingredients: the stage and its version, the stage's settings, the keys of the stages
before it, the kind of device and the precision. A stage in progress has the folder
`<stage>-<key>.partial/`, with a checkpoint that is written atomically. The finished folder is synced to
disk and renamed. So a folder without a suffix is always a complete artifact, even if a process was killed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import StoreError
from ..parallel import process_count
from ..version import VERSION
from .atomic import file_checksum, read_tensors
from .json_lines import parse_rows

if TYPE_CHECKING:
    from torch import Tensor

TENSORS, FACTS, LOG = "tensors.safetensors", "artifact.json", "log.jsonl"


@dataclass(frozen=True)
class Artifact:
    """The stored result of a stage: its tensors, its facts (JSON values) and what it depends on."""

    path: Path
    key: str
    facts: dict[str, Any]
    about: dict[str, Any]

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        return read_tensors(self.path / TENSORS)

    @property
    def log(self) -> list[dict[str, Any]]:
        """The rows of the training log. Damaged lines are left out, with a warning."""
        data = _log_bytes(self.path)
        rows, damaged = parse_rows(data)
        recorded = self.about.get("log_sha256")  # older versions recorded none
        if damaged or recorded not in (None, hashlib.sha256(data).hexdigest()):
            warnings.warn(
                f"{self.path / LOG} is damaged: {damaged} lines of it cannot be read and are left out. The "
                "result itself is intact; only its training curves may be wrong.",
                stacklevel=2,
            )
        return rows


def log_checksum(folder: Path) -> str:
    """Return the checksum of the log of an artifact; a missing log counts as empty.

    Raises OSError if the log exists and cannot be read.
    """
    path = folder / LOG
    return hashlib.sha256(path.read_bytes() if path.exists() else b"").hexdigest()


def _log_bytes(folder: Path) -> bytes:
    try:
        return (folder / LOG).read_bytes()
    except OSError:
        return b""


class DamagedArtifact(StoreError):  # noqa: N818  (a state of the artifact)
    """The content of an artifact is not what was written, or a part of it is missing."""


# Errors that say nothing about the content of a file: too many open files, no permission, a server away.
NO_DAMAGE = (
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES, errno.EPERM),
    *(errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN),
)


def open_artifact(path: Path) -> Artifact:
    """Read an artifact and verify its checksums.

    Raises DamagedArtifact, or another StoreError if it cannot be read now.
    """
    try:
        about = json.loads((path / FACTS).read_bytes())
        recorded = about.pop("sha256")
        whole = recorded == seal(about) and about["tensors_sha256"] == file_checksum(path / TENSORS)
    except (OSError, ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        if isinstance(error, OSError) and error.errno in NO_DAMAGE:
            raise StoreError(
                f"the artifact {path} cannot be read ({error.strerror}). It was left as it is; run the same "
                "command again when it can be read."
            ) from None
        raise DamagedArtifact(f"the artifact {path.name} cannot be read ({error}).") from None
    if not whole:
        raise DamagedArtifact(f"the artifact {path.name} is damaged: its checksum differs.")
    return Artifact(path, path.name.rpartition("-")[2], about["facts"], about)


def environment() -> dict[str, str]:
    """Return the versions and the hardware of this process, as they are recorded with results."""
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return {
        "unspur": VERSION,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "gpu": gpu,
        "cpu": f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads",
        "threads": str(torch.get_num_threads()),
        **({"processes": str(count)} if (count := process_count()) > 1 else {}),
    }


def seal(about: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
