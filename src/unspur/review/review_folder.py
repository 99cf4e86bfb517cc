"""The review of one folder: suspects.csv and its log, and how both are written.

Every decision is first appended to the log, and takes effect then. After that suspects.csv is written as a
whole. Several pages and several servers may work on one folder: a writer holds a lock, and first reads what
others have appended. Both files are not in the manifest of the folder, so that the folder stays valid.
"""

from __future__ import annotations

import hashlib
import itertools
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import DataError, StoreError, UsageError
from ..runs.person_changes import BEFORE_REVIEW
from ..runs.suspects_csv import CSV
from ..store import locked, write_bytes
from ..store.folder_lock import writer_of
from .decision_log import LOG, Decision, DecisionLog, LogStart
from .replay import Replay
from .suspect_table import RowState, SuspectTable, TableWriter, parse_table


class NotSavedError(StoreError):
    """A decision could not be written; it may be sent again."""


class Review:
    """The rows of a folder's suspects.csv with their decisions; safe to use from several threads."""

    def __init__(self, folder: Path, *, read_only: bool = False):
        self.folder, self.read_only = folder, read_only
        self.path = folder / CSV
        self.lock = threading.RLock()
        self.table_problem = ""  # why suspects.csv could not be written, if so
        self.reload()

    def reload(self) -> None:
        """Read table and log; update suspects.csv if a crash has left it older than the log."""
        if not self.path.is_file():
            raise DataError(
                f"{self.folder} has no {CSV}, so there are no suspects to review. Give a run or an audit "
                "that has found suspects."
            )
        with self.lock:
            if self.read_only or not (self.folder / LOG).exists():
                self._read()
                return
            with locked(self.folder / LOG):
                self._read()
                if self.log.start is not None:
                    self.write_table()

    def is_stale(self) -> bool:
        """Return whether another program has changed suspects.csv since it was read."""
        return _signature(self.path) != self._seen

    def _read(self) -> None:
        data = self._read_table()
        now = parse_table(data, self.path)
        self.log = DecisionLog(self.folder / LOG)
        decisions = self.log.read_new()
        if self.log.start is not None and self.log.start.identity != now.identity:
            self._set_aside()
            decisions = []
        start = self.log.start
        table = now if start is None else self._table_before(start)
        self.replay, self.writer = Replay(table, decisions), TableWriter(table)
        self._written = _hash(data)
        if start is not None and not self._is_ours(self._written):
            self._log_edits(now)

    def _read_table(self) -> bytes:
        self._seen = _signature(self.path)
        return self.path.read_bytes()

    def _table_before(self, start: LogStart) -> SuspectTable:
        """Read the table as it was before the first decision of the log."""
        path = self.folder / BEFORE_REVIEW
        data = path.read_bytes() if path.is_file() else b""
        if _hash(data) != start.before:
            raise StoreError(
                f"{path} is missing or was changed, but the decisions in {LOG} refer to it. Put it back, or "
                f"rename {LOG} to start a new review of the current {CSV}."
            )
        return parse_table(data, path)

    def _set_aside(self) -> None:
        """Rename the log if a later run has replaced its table, so that the decisions are kept."""
        if not self.read_only:
            paths = [self.folder / name for name in (LOG, BEFORE_REVIEW)]
            number = next(
                n for n in itertools.count(1) if not any(_numbered(p, n).exists() for p in paths)
            )
            for path in (path for path in paths if path.exists()):
                path.rename(_numbered(path, number))
        self.log = DecisionLog(self.folder / LOG)
        self.log.skip_all = self.read_only

    def _is_ours(self, found: str) -> bool:
        """Return whether a review wrote the table on disk, before or after its last decision."""
        last = self.replay.decisions.get(self.replay.seq)
        known = {self._written_before(last), _hash(self.writer.render(self.replay.states))}
        return found in known

    def _written_before(self, last: Decision | None) -> str:
        start = self.log.start
        return last.table if last else start.before if start else ""

    def _log_edits(self, now: SuspectTable) -> None:
        """Log the rows that were edited outside the review."""
        states = self.replay.states
        differing = [i for i, state in enumerate(now.state) if state != states[i]]
        for state, rows in _grouped(differing, now.state):
            names = [self.replay.table.names[i] for i in rows]
            edit = Decision(0, "edit", names, state.new_label, state.note, state.flag)
            self._log(edit)

    # -- deciding --------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Apply the decisions of other servers."""
        with self.lock:
            for decision in self.log.read_new():
                self.replay.apply(decision)

    def decide(self, decision: Decision) -> int:
        """Log a decision, apply it, write the table; return its number in the log.

        A decision whose key is already in the log is ignored. Raises OSError if the log cannot be written;
        then nothing has changed.
        """
        self._check_writable()
        with self.lock, locked(self.folder / LOG):
            self.refresh()
            if decision.key in self.replay.by_key:
                return self.replay.by_key[decision.key]
            self._check_table()
            self._check(decision)
            seq = self._log(decision)
            self.write_table()
            return seq

    def undo(self, page: str, key: str = "") -> Decision:
        """Undo the last decision of a page that was not undone yet, and return it."""
        with self.lock:
            self.refresh()
            if key in self.replay.by_key:  # a request that was sent twice
                return self.replay.decisions[self.replay.decisions[self.replay.by_key[key]].undoes]
            last = self.replay.last_of(page)
            if last is None:
                raise UsageError("There is nothing to undo on this page.")
            self.decide(Decision(0, "undo", last.names, undoes=last.seq, key=key, page=page))
            return last

    def _check_writable(self) -> None:
        if self.read_only:
            raise UsageError("This review is read-only. Start it without --read-only to decide.")
        if who := writer_of(self.folder):
            raise UsageError(
                f"{self.folder} is being written by {who}. Wait until that has finished."
            )

    def _check_table(self) -> None:
        """Accept edits of the table since it was read; raise if another run has replaced it."""
        if _signature(self.path) == self._seen:
            return
        data = self._read_table()
        if _hash(data) == self._written or self._is_ours(_hash(data)):
            self._written = _hash(data)
            return
        now = parse_table(data, self.path)
        if now.identity != self.replay.table.identity:
            self._seen = None
            raise StoreError(
                f"Another run has replaced {self.path}. Reload the page to review the new table; the earlier "
                "decisions are kept."
            )
        self._written = _hash(data)
        self._log_edits(now)

    def _check(self, decision: Decision) -> None:
        """Raise if an image is not in the table, or if a new label equals the old one."""
        rows, table = self.replay.rows, self.replay.table
        if unknown := [name for name in decision.names if name not in rows]:
            raise UsageError(f"{unknown[0]!r} is not an image of this table. Reload the page.")
        labels = {table.labels[rows[name]] for name in decision.names}
        if decision.kind == "relabel" and decision.label in labels:
            raise UsageError(f"The label is already {decision.label!r}. Choose another class.")

    def _log(self, decision: Decision) -> int:
        """Append a decision to the log, and apply it; before the first one, keep a copy of the table."""
        if self.read_only:
            self.replay.apply(replace(decision, seq=self.replay.seq + 1))
            return self.replay.seq
        if self.log.start is None:
            self._begin()
        now = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        stamped = replace(decision, seq=self.replay.seq + 1, time=now, table=self._written)
        self.log.append(stamped)
        self.replay.apply(stamped)
        return stamped.seq

    def _begin(self) -> None:
        """Keep a copy of the table before the first decision, and begin the log."""
        data = self.path.read_bytes()
        try:
            write_bytes(self.folder / BEFORE_REVIEW, data)
        except StoreError as error:
            raise NotSavedError(_reason(error)) from None
        self.log.begin(LogStart(self.replay.table.identity, _hash(data)))

    def write_table(self) -> None:
        """Write suspects.csv. If that fails, the log has all decisions, and the next decision tries again."""
        data = self.writer.render(self.replay.states)
        try:
            if _hash(data) != self._written:
                write_bytes(self.path, data)
        except (OSError, StoreError) as error:
            self.table_problem = (
                f"Every decision is in {LOG}, but {CSV} could not be written: {_reason(error)}"
            )
            return
        self._written, self.table_problem = _hash(data), ""
        self._seen = _signature(self.path)


def _reason(error: Exception) -> str:
    """Return the message of an error, without the advice about training."""
    return str(error).partition("Finished stages")[0].strip()


def _grouped(
    rows: Iterable[int], states: Sequence[RowState]
) -> Iterator[tuple[RowState, list[int]]]:
    """Group rows that have the same state."""
    ordered = sorted(rows, key=lambda i: states[i])
    for state, group in itertools.groupby(ordered, key=lambda i: states[i]):
        yield state, list(group)


def _numbered(path: Path, number: int) -> Path:
    return path.with_stem(f"{path.stem}-{number}")


def _signature(path: Path) -> tuple[int, int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size, facts.st_ino


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
