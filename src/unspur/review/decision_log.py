"""The file review.jsonl: one line of JSON per decision, written to disk before the decision takes effect.

The first line identifies the table that the decisions are about. No line is ever changed: an undo is a new
line. A crash may leave an incomplete last line. The page never got an answer to it, and it is removed before
the next line is appended.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from ..errors import StoreError
from ..store.atomic import sync_folder

LOG = "review.jsonl"
FORMAT = 1
Kind = Literal["confirm", "clear", "relabel", "exclude", "skip", "note", "undo", "edit"]
KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True)
class Decision:
    """One line of the log: a kind of decision, and the images that it is about.

    `key` is a unique name that the page chooses, so that a decision that is sent twice counts once. `page` is
    the browser tab that sent it. `table` is the hash of suspects.csv before the decision.
    """

    seq: int
    kind: Kind
    names: Sequence[str]
    label: str = ""
    note: str = ""
    flag: str = ""
    undoes: int = 0
    key: str = ""
    page: str = ""
    time: str = ""
    table: str = ""

    def as_json(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in values.items() if value not in ("", 0)}


@dataclass(frozen=True)
class LogStart:
    """The first line of the log: the identity of the table, and a hash of the file before all decisions."""

    identity: str
    before: str


class DecisionLog:
    """A log to append to; several processes may share it if each caller holds a lock while it appends."""

    def __init__(self, path: Path):
        self.path = path
        self.start: LogStart | None = None
        self.skip_all = False  # ignore a log of another table that may not be renamed
        self._read_to = 0

    def read_new(self) -> list[Decision]:
        """Return the decisions that were appended since the last call."""
        if self.skip_all:
            return []
        try:
            with open(self.path, "rb") as file:
                file.seek(self._read_to)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        lines = whole.splitlines()
        if self._read_to == 0 and lines:
            self.start = _read_start(self.path, lines.pop(0))
        found = [_read_decision(self.path, line) for line in lines]
        self._read_to += len(whole)
        return found

    def begin(self, start: LogStart) -> None:
        """Write the first line."""
        about = {"format": FORMAT, "table": start.identity, "before": start.before}
        self._append(about)
        sync_folder(self.path.parent)
        self.start = start

    def append(self, decision: Decision) -> None:
        """Append a decision and wait until it is on disk; a failure leaves the log unchanged."""
        self._append(decision.as_json())

    def _append(self, content: Mapping[str, Any]) -> None:
        line = (json.dumps(content, ensure_ascii=False) + "\n").encode("utf-8", "replace")
        with open(self.path, "ab") as file:
            if file.tell() < self._read_to:
                raise StoreError(
                    f"{self.path} is shorter than before, so it was replaced. Reload the page."
                )
            os.truncate(self.path, self._read_to)  # remove an incomplete line after a crash
            try:
                write_synced(file.fileno(), line)
            except OSError:
                os.truncate(self.path, self._read_to)
                raise
        self._read_to += len(line)


def write_synced(handle: int, data: bytes) -> None:
    """Write all bytes to an open file, and wait until they are on disk."""
    while data:
        data = data[os.write(handle, data) :]
    os.fsync(handle)


def _read_start(path: Path, line: bytes) -> LogStart:
    content = _parse(path, line)
    if content.get("format") != FORMAT:
        raise StoreError(
            f"{path} has format {content.get('format')!r}, not {FORMAT}. Another version of unspur wrote "
            "it: use that version, or rename the file to start a new review."
        )
    return LogStart(str(content.get("table", "")), str(content.get("before", "")))


def _read_decision(path: Path, line: bytes) -> Decision:
    content = _parse(path, line)
    known = {name: content[name] for name in Decision.__dataclass_fields__ if name in content}
    numbers = (known.get("seq"), known.get("undoes", 0))
    is_valid = known.get("kind") in KINDS and isinstance(known.get("names"), list)
    if not is_valid or not all(isinstance(number, int) for number in numbers):
        raise _damage(path)
    return Decision(**known)


def _parse(path: Path, line: bytes) -> dict[str, Any]:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        raise _damage(path) from None
    if not isinstance(content, dict):
        raise _damage(path)
    return content


def _damage(path: Path) -> StoreError:
    return StoreError(
        f"{path} is damaged: one of its lines is not a decision. suspects.csv still has all decisions; "
        "rename the log to start a new one."
    )
