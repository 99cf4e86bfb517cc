"""review.jsonl: every decision of a person, a line of JSON each, appended and synced before it counts.

The first line names the table that the decisions are about. No line is ever changed: an undo is a line, too.
The last line may be torn by a crash; it was never answered, and is cut off before the next one is appended.
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
    """One line: what was decided of which images.

    `key` is the page's own name of a decision, so that one which is sent twice counts once; `page` is the tab
    it came from; `table` is the hash of suspects.csv before it.
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
    """The first line: the table that the decisions are about, and a hash of the file before them."""

    identity: str
    before: str


class DecisionLog:
    """A log that grows; several processes may append to it, one at a time under a lock of the caller's."""

    def __init__(self, path: Path):
        self.path = path
        self.start: LogStart | None = None
        self.skip_all = False  # of a log that is about another table, and may not be renamed
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
        """Append a decision and wait until it is on the disk; on failure nothing of it stays."""
        self._append(decision.as_json())

    def _append(self, content: Mapping[str, Any]) -> None:
        line = (json.dumps(content, ensure_ascii=False) + "\n").encode("utf-8", "replace")
        with open(self.path, "ab") as file:
            if file.tell() < self._read_to:
                raise StoreError(
                    f"{self.path} is shorter than it was: it was replaced. Reload the page."
                )
            os.truncate(self.path, self._read_to)  # what a crash has left of a line
            try:
                write_synced(file.fileno(), line)
            except OSError:
                os.truncate(self.path, self._read_to)
                raise
        self._read_to += len(line)


def write_synced(handle: int, data: bytes) -> None:
    """Write all bytes to an open file, and wait until they are on the disk."""
    while data:
        data = data[os.write(handle, data) :]
    os.fsync(handle)


def _read_start(path: Path, line: bytes) -> LogStart:
    content = _parse(path, line)
    if content.get("format") != FORMAT:
        raise StoreError(
            f"{path} has format {content.get('format')!r}, not {FORMAT}. Another version of unspur wrote "
            "it: review with that one, or rename the file to begin anew."
        )
    return LogStart(str(content.get("table", "")), str(content.get("before", "")))


def _read_decision(path: Path, line: bytes) -> Decision:
    content = _parse(path, line)
    known = {name: content[name] for name in Decision.__dataclass_fields__ if name in content}
    numbers = (known.get("seq"), known.get("undoes", 0))
    right = known.get("kind") in KINDS and isinstance(known.get("names"), list)
    if not right or not all(isinstance(number, int) for number in numbers):
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
        f"{path} is damaged: it has a line that is no decision. suspects.csv still holds what was decided; "
        "rename the log to begin a new one."
    )
