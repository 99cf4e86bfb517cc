"""Debias with the decisions of a review: the command, its process, and its output so far."""

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
LINES, MOST_BYTES = 400, 2**16  # of the command's output that are shown


class DebiasCommand(NamedTuple):
    """The arguments of `unspur`, and the folder of the result."""

    arguments: list[str]
    out: Path

    def __str__(self) -> str:
        return shlex.join(["unspur", *self.arguments])


def debias_command(folder: Path, data_path: str | None = None) -> DebiasCommand:
    """Return the command that debiases with the reviewed table.

    It has the options of the run, but another folder for the result. `data_path` is the place of the data, if
    the run found it elsewhere. Raises UsageError if the run cannot be repeated from the command line.
    """
    source = data_path or data_source(folder)
    if not source:
        raise UsageError(
            "The images of this run are not in a folder: it is a built-in recipe, or its data came from "
            f"Python. In Python, use unspur.debias(data, suspects={str(folder / CSV)!r}, ...)."
        )
    out = free_folder(folder)
    files = ["--suspects", str(folder / CSV), "--out", str(out)]
    return DebiasCommand(["debias", source, *files, *_options(folder)], out)


def _options(folder: Path) -> list[str]:
    """Return the options of the run that are reused."""
    record = read_json(folder / (audit_folder.RECORD if is_audit(folder) else "run.json"))
    words = shlex.split(str(record.get("command", "")))
    if is_audit(folder) or words[:2] != ["unspur", "debias"]:
        return []
    store = ["--store", os.path.normpath(folder / str(record.get("store", "../store")))]
    return [*store, *_kept_options(words[2:])]


def _kept_options(words: Sequence[str]) -> list[str]:
    """Return options with their values, without the data and without options that are replaced."""
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
    """Return a path beside the reviewed folder that does not exist yet."""
    base = folder.resolve().name
    names = (f"{base}-reviewed{'' if n == 1 else f'-{n}'}" for n in range(1, 10_000))
    return next(path for name in names if not (path := folder.parent / name).exists())


class DebiasJob:
    """A debias command in a separate process, at most one at a time."""

    def __init__(self, folder: Path, data_path: str | None = None):
        self.folder, self.data_path = folder, data_path
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._is_stopping = False
        self._lock = threading.Lock()
        self.out: Path | None = None
        self.command = ""

    def preview(self) -> dict[str, Any]:
        """Return the exact command, or the reason why there is none."""
        try:
            return {"command": str(debias_command(self.folder, self.data_path))}
        except UnspurError as error:
            return {"missing": str(error)}

    def start(self) -> None:
        """Start the command; raises UsageError if one is running."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                raise UsageError(
                    "A debias command is already running. Wait until it ends, or stop it."
                )
            command = debias_command(self.folder, self.data_path)
            self.out, self.command = command.out, str(command)
            self._process, self._is_stopping = self._run(command), False

    def _run(self, command: DebiasCommand) -> subprocess.Popen[bytes]:
        """Start the process; its output goes to a file, so that it continues if the server is killed."""
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the job)
        weakref.finalize(self, self._output.close)
        return subprocess.Popen(  # noqa: S603  (our own program, no shell)
            [sys.executable, "-m", "unspur", *command.arguments],
            stdout=self._output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "COLUMNS": "84", "PYTHONUNBUFFERED": "1"},
        )

    def _lines(self) -> list[str]:
        """Return the last lines of the command's output."""
        assert self._output is not None
        handle = self._output.fileno()
        start = max(0, os.fstat(handle).st_size - MOST_BYTES)
        return os.pread(handle, MOST_BYTES, start).decode("utf-8", "replace").splitlines()[-LINES:]

    def stop(self) -> None:
        """Stop the command as Ctrl-C does; finished stages remain stored.

        A second call ends a command that ignores Ctrl-C, as children of a background process may do.
        """
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM if self._is_stopping else signal.SIGINT)
            self._is_stopping = True

    def state(self) -> dict[str, Any]:
        """Return whether the command is running, and its last lines of output."""
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
        """Return the report that the command has written, if there is one."""
        page = self.out / REPORT if self.out else None
        return page if page is not None and page.is_file() else None
