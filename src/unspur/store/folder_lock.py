"""Lock the folder of a result, so that one process at a time writes it and the others can say which."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ..errors import StoreError
from .atomic import disk_trouble, still_there

LOCK = ".unspur.lock"
OWNER = re.compile(r"process (?P<pid>\d+) on (?P<host>.*), since ")


@contextlib.contextmanager
def claim(folder: Path, lock: Path | None = None) -> Iterator[None]:
    """Lock a folder for writing; raise StoreError if another process is writing it now.

    The operating system releases the lock when its process ends. A lock file that a killed process has left
    behind is reused. `lock` is the path of the lock file, by default in the folder.
    """
    lock = lock or folder / LOCK
    with disk_trouble(lock):
        held = _acquire(folder, lock)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            lock.unlink()
        held.close()


def writer_of(folder: Path) -> str:
    """Return which live process is writing a folder, from its lock file; "" if there is none."""
    try:
        text = (folder / LOCK).read_text("utf-8")[:200]
    except (OSError, UnicodeDecodeError):
        return ""
    found = OWNER.match(text)
    if found is None or (found["host"] == platform.node() and not _is_alive(int(found["pid"]))):
        return ""
    return text


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # a process of another user
        return True
    return True


def _acquire(folder: Path, lock: Path) -> IO[str]:
    """Lock the lock file, write this process into it as the owner, and return it open."""
    while True:
        lock.parent.mkdir(parents=True, exist_ok=True)  # another process may remove an empty folder
        file = open(lock, "a+", encoding="utf-8")  # noqa: SIM115  (closed when the claim ends)
        if not _try_lock(file):
            owner = _owner(file)
            file.close()
            raise StoreError(
                f"{folder} is being written by {owner}. Wait until that has ended, or choose another --out."
            )
        if still_there(lock, file.fileno()):  # otherwise its owner has just removed it
            _sign(file)
            return file
        file.close()


def _try_lock(file: IO[str]) -> bool:
    """Lock an open file; return False if another process holds the lock."""
    try:
        import fcntl
    except ImportError:  # a system without file locks
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _sign(file: IO[str]) -> None:
    file.truncate(0)
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    file.write(f"process {os.getpid()} on {platform.node()}, since {since}")
    file.flush()


def _owner(file: IO[str]) -> str:
    """Return who holds the lock, from the content of the file."""
    file.seek(0)
    return file.read(200) or "another process"
