"""A worker process that decodes image files, and the handling of files that crash it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from ...errors import DataError
from . import pixels

PROGRAM = pixels.__file__
SECONDS = 60.0  # time limit for one image
# Signals with which a decoder ends because of a file. Other signals come from outside, such as lack of
# memory.
CRASHES = ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE", "SIGILL")


class FatalImage(Exception):  # noqa: N818  (the file is at fault)
    """A file that crashed a process or took too long; the message is the reason."""


@dataclass(frozen=True)
class Task:
    """Files to decode, and where their pixels go in shared memory."""

    memory: str
    path: str
    offset: int
    size: tuple[int, int]
    crop: str
    files: tuple[str, ...]

    def after(self, done: int) -> Task:
        """Return the rest of the task after some files are done."""
        high, wide = self.size
        return replace(self, offset=self.offset + done * 3 * high * wide, files=self.files[done:])

    def of(self, files: tuple[str, ...]) -> Task:
        """Return the same task for other files."""
        return replace(self, files=files)


class DecodingProcess:
    """A process that decodes the files of one task after another."""

    def __init__(self) -> None:
        # -P: do not import modules from the folder of the program.
        self.process = subprocess.Popen(  # noqa: S603  (our own program)
            [sys.executable, "-P", "-W", "ignore", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def answers(self, task: Task) -> Iterator[str]:
        """Decode files; yield for each the reason why it cannot be read, or ''.

        Raises FatalImage if the next file crashed the process or took too long.
        """
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(asdict(task)).encode() + b"\n")
            self.process.stdin.flush()
            lines = self._lines()
            for _ in task.files:
                yield json.loads(next(lines))
        except (OSError, ValueError) as error:
            self.end()
            raise _ended(str(error)) from error

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines that the process writes, each within the time limit of one image."""
        assert self.process.stdout is not None
        handle, rest = self.process.stdout.fileno(), b""
        while True:
            *lines, rest = rest.split(b"\n")
            yield from lines
            if not _is_ready(handle):
                self.process.kill()
                self.end()
                raise FatalImage(f"decoding it took more than {SECONDS:.0f} s")
            if not (some := os.read(handle, 2**16)):
                raise self._death()
            rest += some

    def _death(self) -> Exception:
        """Return the error for the end of the process: a fatal file, or another problem."""
        status = self.process.wait()
        self.end()
        name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        if name in CRASHES:
            return FatalImage(f"the decoder crashed on it ({name})")
        return _ended(name)

    def end(self) -> None:
        """Close the input of the process and wait until it has ended."""
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):  # it has ended already
                if pipe is not None:
                    pipe.close()
        self.process.wait()


def _ended(how: str) -> DataError:
    return DataError(
        f"a decoding process ended unexpectedly ({how}). Is there enough memory? Try fewer "
        "(data.workers)."
    )


def _is_ready(handle: int) -> bool:
    """Wait for something to read; return False if nothing comes in time."""
    if not hasattr(select, "poll"):  # a system without poll cannot wait with a time limit
        return True
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(SECONDS * 1000))
