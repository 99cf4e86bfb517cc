"""Debias with the decisions of a review: the command, its process, and what it has said so far."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from ..errors import UnspurError, UsageError
from ..runs import audit_folder
from ..runs.finished import is_audit
from ..runs.run_folder import REPORT
from ..runs.suspects_csv import CSV
from ..store import read_json
from .image_sources import data_source

REPLACED = ("--out", "--suspects", "--store")
DROPPED = ("--dry-run", "--quiet", "-q")
LINES, MOST_BYTES = 400, 2**16  # of what the command says that are shown


class DebiasCommand(NamedTuple):
    """The arguments of `unspur`, and the folder that the result goes to."""

    arguments: list[str]
    out: Path

    def __str__(self) -> str:
        return shlex.join(["unspur", *self.arguments])


def debias_command(folder: Path, named: str | None = None) -> DebiasCommand:
    """Return the command that debiases with the reviewed table.

    They are those of the run, with another folder for the result; raises UsageError where the run cannot be
    repeated from the command line.
    """
    source = named or data_source(folder)
    if not source:
        raise UsageError(
            "This run has no images of its own on the disk: it is a built-in recipe, or was given a data set "
            f"in Python. There, debias with unspur.debias(data, suspects={str(folder / CSV)!r}, ...)."
        )
    out = free_folder(folder)
    given = ["--suspects", str(folder / CSV), "--out", str(out)]
    return DebiasCommand(["debias", source, *given, *_options(folder)], out)


def _options(folder: Path) -> list[str]:
    """Return the options of the run that are used again."""
    record = read_json(folder / (audit_folder.RECORD if is_audit(folder) else "run.json"))
    words = shlex.split(str(record.get("command", "")))
    if is_audit(folder) or words[:2] != ["unspur", "debias"]:
        return []
    store = ["--store", os.path.normpath(folder / str(record.get("store", "../store")))]
    return [*store, *_kept_options(words[2:])]


def _kept_options(words: Sequence[str]) -> list[str]:
    """Return options with their values, without the data and what is replaced."""
    kept: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        takes_value = word.startswith("--") and "=" not in word and word not in SWITCHES
        value = [rest.pop(0)] if takes_value and rest else []
        if word.startswith("-") and word.partition("=")[0] not in (*REPLACED, *DROPPED):
            kept += [word, *value]
    return kept


SWITCHES = ("--pretrained", "--anyway", *DROPPED)


def free_folder(folder: Path) -> Path:
    """Return a folder beside the reviewed one that does not exist yet."""
    base = folder.resolve().name
    names = (f"{base}-reviewed{'' if n == 1 else f'-{n}'}" for n in range(1, 10_000))
    return next(path for name in names if not (path := folder.parent / name).exists())


class DebiasJob:
    """A debias command that runs beside the server, at most one at a time."""

    def __init__(self, folder: Path, named: str | None = None):
        self.folder, self.named = folder, named
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None
        self._lock = threading.Lock()
        self.out: Path | None = None
        self.command = ""

    def preview(self) -> dict[str, Any]:
        """Return the exact command, or why there is none."""
        try:
            return {"command": str(debias_command(self.folder, self.named))}
        except UnspurError as error:
            return {"missing": str(error)}

    def start(self) -> None:
        """Start the command; raises UsageError while one is running."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                raise UsageError("A debias command is running already.")
            command = debias_command(self.folder, self.named)
            self.out, self.command = command.out, str(command)
            self._process = self._run(command)

    def _run(self, command: DebiasCommand) -> subprocess.Popen[bytes]:
        """Start the process; it writes to a file, so that it goes on if the server is killed."""
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the job)
        weakref.finalize(self, self._said.close)
        return subprocess.Popen(  # noqa: S603  (our own program, no shell)
            [sys.executable, "-m", "unspur", *command.arguments],
            stdout=self._said,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "COLUMNS": "84", "PYTHONUNBUFFERED": "1"},
        )

    def _lines(self) -> list[str]:
        """Return the last lines that the command has said."""
        assert self._said is not None
        handle = self._said.fileno()
        start = max(0, os.fstat(handle).st_size - MOST_BYTES)
        return os.pread(handle, MOST_BYTES, start).decode("utf-8", "replace").splitlines()[-LINES:]

    def stop(self) -> None:
        """Stop the command as Ctrl-C does: what is finished stays stored."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def state(self) -> dict[str, Any]:
        """Return how the command is doing, and its last lines."""
        if self._process is None:
            return {"state": "none"}
        code = self._process.poll()
        state = "running" if code is None else "done" if code == 0 else "failed"
        return {
            "state": state,
            "code": code,
            "command": self.command,
            "lines": self._lines(),
            "out": str(self.out),
            "report": state == "done" and self.report() is not None,
        }

    def report(self) -> Path | None:
        """Return the page that the command has written."""
        page = self.out / REPORT if self.out else None
        return page if page is not None and page.is_file() else None
