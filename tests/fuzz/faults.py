"""Make one file-system call below a folder fail: with an error, a crash, or a partial write."""

from __future__ import annotations

import builtins
import errno
import io
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

ERRORS = ("ENOSPC", "EIO", "EROFS", "ENOENT")
DEATHS = ("die before", "die after", "torn")
KINDS = (*ERRORS, *DEATHS)
CALLS = (
    *("open", "replace", "rename", "truncate", "unlink", "remove", "mkdir", "rmdir"),
    *("stat", "scandir", "listdir"),
)


class Trap:
    """Counts the calls of this process below a folder, and makes the call `number` fail."""

    def __init__(self, root: Path, number: int, kind: str):
        self.root, self.number, self.kind = str(root), number, kind
        self.count = 0
        self.synced: dict[str, int] = {}  # by file, the number of bytes that are on the disk

    def set(self) -> None:
        """Replace the calls of this process. This cannot be undone, so do it in a child process."""
        for name in CALLS:
            setattr(os, name, self._watch(name, getattr(os, name)))
        os.fsync = self._watch_sync(os.fsync)
        opened = self._watch_open(io.open)
        builtins.open = io.open = opened  # type: ignore[assignment]

    def step(self, call: Callable[[], Any], path: str, data: bytes = b"") -> Any:
        """Make a call, or fail if it is the one that must fail."""
        self.count += 1
        if self.count != self.number:
            return call()
        if self.kind in ERRORS:
            code = getattr(errno, self.kind)
            raise OSError(code, os.strerror(code), path)
        if self.kind == "die after":
            call()
        if self.kind == "torn":
            self._lose_power()
        os.kill(os.getpid(), signal.SIGKILL)
        return None

    def _lose_power(self) -> None:
        """Keep only half of the bytes of every file that were written and not synced."""
        for path, safe in self.synced.items():
            handle = self._open_plainly(path)
            if handle is not None:
                os.ftruncate(handle, safe + max(0, os.fstat(handle).st_size - safe) // 2)

    def _open_plainly(self, path: str) -> int | None:
        try:
            return PLAIN_OPEN(path, os.O_RDWR)
        except OSError:
            return None

    def _is_below(self, path: Any, options: dict[str, Any]) -> bool:
        if isinstance(path, int):
            return False
        named = os.fsdecode(path)
        return named.startswith(self.root) or options.get("dir_fd") is not None

    def _watch(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(path: Any = ".", *args: Any, **options: Any) -> Any:
            if not self._is_below(path, options):
                return call(path, *args, **options)
            found = self.step(lambda: call(path, *args, **options), os.fsdecode(path))
            if name in ("replace", "rename") and str(path) in self.synced:
                self.synced[str(args[0])] = self.synced.pop(str(path))
            return found

        return watched

    def _watch_sync(self, call: Callable[[int], None]) -> Callable[[int], None]:
        def watched(handle: int) -> None:
            path = os.readlink(f"/proc/self/fd/{handle}")
            self.step(lambda: call(handle), path)
            self.synced[path] = os.fstat(handle).st_size

        return watched

    def _watch_open(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(path: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
            if not self._is_below(path, {}):
                return call(path, mode, *args, **options)
            named = os.fsdecode(path)
            file = self.step(lambda: call(path, mode, *args, **options), named)
            if mode.startswith("r") and "+" not in mode:
                return file
            self.synced[named] = self.synced.get(named, 0) if mode.startswith("a") else 0
            return WatchedFile(file, self, named)

        return watched


PLAIN_OPEN = os.open


class WatchedFile:
    """A file that is written through a trap."""

    def __init__(self, file: Any, trap: Trap, path: str):
        self.file, self.trap, self.path = file, trap, path

    def write(self, data: Any) -> Any:
        def call() -> Any:
            return self.file.write(data)

        return self.trap.step(call, self.path)

    def __enter__(self) -> WatchedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)
