"""Remove artifacts from the store, except those that a run is computing or reading.

A run that computes an artifact holds its lock (`locked`). A run that reads an artifact holds a shared lock on
its folder. The operating system releases both when the process ends, even if it is killed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import weakref
from collections.abc import Iterator
from pathlib import Path

from ..errors import StoreError
from .artifacts import Artifact
from .atomic import locked


def hold(artifact: Artifact) -> bool:
    """Protect an artifact from removal while it is in use; return False if it was removed already."""
    try:
        handle = os.open(artifact.path, os.O_RDONLY)
    except OSError:
        return artifact.path.exists()  # a system on which folders cannot be opened
    weakref.finalize(artifact, os.close, handle)
    with contextlib.suppress(OSError, ImportError):  # not every file system has such locks
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_SH)
    return artifact.path.exists()


def remove(path: Path, *, force: bool = False) -> None:
    """Delete a folder of the store. It is renamed first, so that a partial one never looks complete.

    Raises StoreError if a run is using it, unless `force`.
    """
    with contextlib.nullcontext() if force else _lock_unused(path):
        target = path.with_name(path.name + ".removed")
        shutil.rmtree(target, ignore_errors=True)  # of a process that was killed here
        path.rename(target)
        shutil.rmtree(target)


@contextlib.contextmanager
def _lock_unused(path: Path) -> Iterator[None]:
    """Take both locks of a folder, or raise StoreError if a run holds one of them."""
    try:
        with locked(path, wait=False), _lock_readers(path):
            yield
    except BlockingIOError:
        raise StoreError(
            f"{path.name} is in use by a run. Wait until the run has ended. --force removes it anyway, and "
            "the run ends with an error."
        ) from None


@contextlib.contextmanager
def _lock_readers(path: Path) -> Iterator[None]:
    """Lock a folder against readers; raise BlockingIOError if a run is reading it."""
    try:
        import fcntl
    except ImportError:  # a system without file locks
        yield
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)
