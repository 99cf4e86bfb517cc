"""A lock for file systems without locks, such as some network file systems: a file with a heartbeat.

The process that creates the file holds the lock, and touches the file every few seconds. A waiting process
removes a file that has not changed for a minute by its own clock, because its owner must have died. It also
removes the file of a process of the same machine that is no longer alive.
"""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path

REFRESH = 5.0  # seconds between two touches
STALE = 60.0  # seconds without a touch after which the owner is considered dead
POLL = 0.2  # seconds between two attempts of a waiting process


@contextlib.contextmanager
def leased(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lease at a path; wait for it, or raise BlockingIOError if `wait` is False."""
    owner = f"{platform.node()} {os.getpid()} {secrets.token_hex(8)}"
    watch = _Watch(path)
    while not _create(path, owner):
        if watch.is_stale():
            _remove_stale(path, watch.content)
        elif not wait:
            raise BlockingIOError(f"{path} is held by another process")
        else:
            time.sleep(POLL)
    done = threading.Event()
    keeper = threading.Thread(target=_keep_fresh, args=(path, owner, done), daemon=True)
    keeper.start()
    try:
        yield
    finally:
        done.set()
        keeper.join()
        if _read(path) == owner:
            path.unlink(missing_ok=True)


class _Watch:
    """Keeps track of when the file of another owner has last changed."""

    def __init__(self, path: Path):
        self.path = path
        self.content, self.touched, self.since = "", -1, time.monotonic()

    def is_stale(self) -> bool:
        """Return whether the owner of the file is dead."""
        try:
            content, touched = _read(self.path), self.path.stat().st_mtime_ns
        except FileNotFoundError:
            return False
        if (content, touched) != (self.content, self.touched):
            self.content, self.touched, self.since = content, touched, time.monotonic()
        return _is_dead_here(content) or time.monotonic() - self.since > STALE


def _create(path: Path, owner: str) -> bool:
    """Create the file with its owner in it; return False if it exists already."""
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(owner)
        return True
    except FileExistsError:
        return False


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return ""


def _remove_stale(path: Path, stale: str) -> None:
    """Remove the file of a dead owner, unless another process has taken the lease in the meantime."""
    aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    with contextlib.suppress(FileNotFoundError):
        if _read(path) == stale:
            path.rename(aside)  # only one of several waiting processes succeeds
            aside.unlink()


def _is_dead_here(content: str) -> bool:
    """Return whether an owner is a process of this machine that has ended."""
    host, _, rest = content.partition(" ")
    pid = rest.partition(" ")[0]
    if host != platform.node() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _keep_fresh(path: Path, owner: str, done: threading.Event) -> None:
    """Touch the file until the work is done."""
    while not done.wait(REFRESH):
        with contextlib.suppress(OSError):
            if _read(path) == owner:
                os.utime(path)
