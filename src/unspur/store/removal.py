"""Remove what is stored, but nothing that a run is working on or has read.

A run that works on an artifact has its lock (`locked`); one that has found an artifact holds a shared lock on
its folder for as long as it may read from it. The system frees both when the process ends, however it ends.
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
    """Keep an artifact from being removed while it is in use; return False if it is gone already."""
    try:
        handle = os.open(artifact.path, os.O_RDONLY)
    except OSError:
        return artifact.path.exists()  # a system that opens no folders
    weakref.finalize(artifact, os.close, handle)
    with contextlib.suppress(OSError, ImportError):  # not every file system has such locks
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_SH)
    return artifact.path.exists()


def remove(path: Path, *, force: bool = False) -> None:
    """Delete a folder of the store; it is renamed first, so a partial one never looks whole.

    Raises StoreError if a run is using it, unless `force`.
    """
    with contextlib.nullcontext() if force else _free(path):
        doomed = path.with_name(path.name + ".removed")
        path.rename(doomed)
        shutil.rmtree(doomed)


@contextlib.contextmanager
def _free(path: Path) -> Iterator[None]:
    """Take the locks of a folder, or raise if a run has one of them."""
    try:
        with locked(path, wait=False), _unread(path):
            yield
    except BlockingIOError:
        raise StoreError(
            f"{path.name} is in use by a run. Wait until the run has ended; --force removes it all the "
            "same, and the run ends with an error."
        ) from None


@contextlib.contextmanager
def _unread(path: Path) -> Iterator[None]:
    """Make sure that no run has found the folder and may still read from it."""
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
