"""Find out which process of a job has died, and stop the others.

Every process increments a counter in the launcher's key-value store once a second. The first process watches
all others, the others watch the first. A collective operation may wait for a dead process for ever, so a
process whose main thread is stuck in one is stopped from here.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import threading
import time
from datetime import timedelta
from types import TracebackType
from typing import Any

import torch.distributed as dist

BEAT = 1.0  # seconds between two heartbeats
LOST = 20.0  # seconds without a heartbeat after which a process is considered dead
GRACE = 5.0  # seconds for a process to end by itself after another has ended
AGAIN = "Run the same command again to continue from the last checkpoint."
_scopes = 0  # how many lifelines this process has had; the same number in all processes


class Lifeline:
    """The heartbeats of all processes, within a block."""

    def __init__(self, rank: int, size: int):
        global _scopes
        _scopes += 1
        self.rank, self.size, self.scope = rank, size, _scopes
        self.watched = [n for n in range(size) if n != rank] if rank == 0 else [0]
        self.store = _connect()
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._watch, name="lifeline", daemon=True)
        self.seen: dict[int, tuple[int, float]] = {}
        self.lock = threading.Lock()

    def __enter__(self) -> Lifeline:
        self.store.set(
            self._key("who", self.rank), f"process id {os.getpid()} on {platform.node()}"
        )
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.done.set()
        self.thread.join()
        with contextlib.suppress(RuntimeError):  # the process that served the store may have ended
            self.store.add(self._key("left", self.rank), 1)

    def report(self, text: str) -> None:
        """Tell the other processes that this one ends with an error."""
        with self.lock, contextlib.suppress(RuntimeError):  # the store's process may have ended
            if not self.store.check([f"unspur/{self.scope}/failed"]):
                self.store.set(f"unspur/{self.scope}/failed", f"{self.rank} {text}")
            self.store.add(self._key("left", self.rank), 1)

    def has_first_left(self) -> bool:
        """Wait a few seconds, and return whether the first process has ended, with an error or without."""
        end = time.monotonic() + GRACE / 2
        while time.monotonic() < end:
            try:
                with self.lock:
                    if self.store.add(self._key("left", 0), 0):
                        return True
            except RuntimeError:  # it has ended, and the store with it
                return True
            time.sleep(BEAT / 10)
        return False

    def find_culprit(self) -> str | None:
        """Wait until it is known which process has failed or died, and describe it; None if all are alive."""
        end = time.monotonic() + LOST + GRACE
        while not (found := self._failure() or self._loss()) and time.monotonic() < end:
            time.sleep(BEAT / 2)
        return found

    def _watch(self) -> None:
        """Send heartbeats and watch the other processes; stop this process if another has ended."""
        while not self.done.wait(BEAT):
            try:
                with self.lock:
                    self.store.add(self._key("beat", self.rank), 1)
                found = self._failure() or self._loss()
            except RuntimeError:  # the process that served the store has ended
                found = f"The launcher, or process 0 of {self.size}, has ended. {AGAIN}"
            if found and not self.done.wait(GRACE):
                _end(found)

    def _failure(self) -> str | None:
        """Return the error that another process has reported, or None."""
        key = f"unspur/{self.scope}/failed"
        with self.lock:
            if not self.store.check([key]):
                return None
            rank, _, text = self.store.get(key).decode().partition(" ")
        return None if int(rank) == self.rank else f"process {rank} of {self.size} stopped: {text}"

    def _loss(self) -> str | None:
        """Return which watched process has sent no heartbeat for too long, or None."""
        now = time.monotonic()
        for rank in self.watched:
            with self.lock:
                if self.store.add(self._key("left", rank), 0):
                    continue
                beats = self.store.add(self._key("beat", rank), 0)
            if beats != self.seen.get(rank, (-1, now))[0]:
                self.seen[rank] = beats, now
            elif now - self.seen[rank][1] > LOST:
                return self._report_death(rank)
        return None

    def _report_death(self, rank: int) -> str:
        """Tell the other processes that one has died, and return the message."""
        key = self._key("who", rank)
        with self.lock:
            who = f" ({self.store.get(key).decode()})" if self.store.check([key]) else ""
        text = f"process {rank} of {self.size}{who} has died or does not answer. {AGAIN}"
        self.report_for(rank, text)
        return text

    def report_for(self, rank: int, text: str) -> None:
        """Tell the other processes which one has died."""
        with self.lock:
            self.store.set(f"unspur/{self.scope}/failed", f"{rank} {text}")

    def _key(self, what: str, rank: int) -> str:
        return f"unspur/{self.scope}/{what}/{rank}"


def _connect() -> Any:
    """Return a separate connection to the launcher's store, so that no other thread blocks it."""
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    client: Any = dist.TCPStore  # type: ignore[attr-defined]
    return client(host, port, is_master=False, timeout=timedelta(seconds=60))


def _end(text: str) -> None:
    """Stop this process at once; its main thread may be stuck in a collective operation."""
    print(text, file=sys.stderr, flush=True)
    os._exit(1)
