"""Find out which process of a job has died, and end the others.

Every process counts up in the launcher's key-value store once a second. The first watches all others, the
others watch the first. A collective that waits for a dead process may wait for ever, so a process whose
main thread is stuck in one is ended from here.
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

BEAT = 1.0  # seconds between two signs of life
LOST = 20.0  # seconds without one after which a process counts as dead
GRACE = 5.0  # seconds in which a process may end by itself after another has
AGAIN = "Give the same command again to go on from the last checkpoint."
_scopes = 0  # how many lifelines this process has had: all processes count alike


class Lifeline:
    """Signs of life of all processes, for the length of a block."""

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
        with contextlib.suppress(
            RuntimeError
        ):  # the store may be gone with the process that held it
            self.store.add(self._key("left", self.rank), 1)

    def report(self, text: str) -> None:
        """Tell the others that this process ends with an error."""
        with self.lock:
            if not self.store.check([f"unspur/{self.scope}/failed"]):
                self.store.set(f"unspur/{self.scope}/failed", f"{self.rank} {text}")
            self.store.add(self._key("left", self.rank), 1)

    def has_first_left(self) -> bool:
        """Wait a little, and return whether the first process has ended its work, with an error or not."""
        end = time.monotonic() + GRACE / 2
        while time.monotonic() < end:
            with self.lock:
                if self.store.add(self._key("left", 0), 0):
                    return True
            time.sleep(BEAT / 10)
        return False

    def find_culprit(self) -> str | None:
        """Wait until it is known which process has failed or died; None if all are alive."""
        end = time.monotonic() + LOST + GRACE
        while time.monotonic() < end:
            if found := self._failure() or self._loss():
                return found
            time.sleep(BEAT / 2)
        return None

    def _watch(self) -> None:
        """Count up and watch until the block ends, or end this process because another has ended."""
        while not self.done.wait(BEAT):
            try:
                with self.lock:
                    self.store.add(self._key("beat", self.rank), 1)
                found = self._failure() or self._loss()
            except RuntimeError:  # the store has gone with the process that held it
                found = f"The launcher, or process 0 of {self.size}, has ended. {AGAIN}"
            if found and not self.done.wait(GRACE):
                _end(found)

    def _failure(self) -> str | None:
        """Return what another process has reported, if one has."""
        key = f"unspur/{self.scope}/failed"
        with self.lock:
            if not self.store.check([key]):
                return None
            rank, _, text = self.store.get(key).decode().partition(" ")
        return None if int(rank) == self.rank else f"process {rank} of {self.size} stopped: {text}"

    def _loss(self) -> str | None:
        """Return which watched process has given no sign of life for long, if one has."""
        now = time.monotonic()
        for rank in self.watched:
            with self.lock:
                if self.store.add(self._key("left", rank), 0):
                    continue
                beats = self.store.add(self._key("beat", rank), 0)
            if beats != self.seen.get(rank, (-1, now))[0]:
                self.seen[rank] = beats, now
            elif now - self.seen[rank][1] > LOST:
                return self._obituary(rank)
        return None

    def _obituary(self, rank: int) -> str:
        key = self._key("who", rank)
        with self.lock:
            who = f" ({self.store.get(key).decode()})" if self.store.check([key]) else ""
        text = f"process {rank} of {self.size}{who} has died or does not answer. {AGAIN}"
        self.report_for(rank, text)
        return text

    def report_for(self, rank: int, text: str) -> None:
        """Tell the others which process has died."""
        with self.lock:
            self.store.set(f"unspur/{self.scope}/failed", f"{rank} {text}")

    def _key(self, what: str, rank: int) -> str:
        return f"unspur/{self.scope}/{what}/{rank}"


def _connect() -> Any:
    """Return a connection of its own to the launcher's store: no other thread may keep it waiting."""
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    client: Any = dist.TCPStore  # type: ignore[attr-defined]
    return client(host, port, is_master=False, timeout=timedelta(seconds=60))


def _end(text: str) -> None:
    """End this process now; its main thread may be stuck in an exchange."""
    print(text, file=sys.stderr, flush=True)
    os._exit(1)
