"""The review of one folder: suspects.csv, the log beside it, and how both are written.

Every decision goes to the log first and counts from then on; suspects.csv is written after it, as a whole.
Several pages and several servers may work on one folder: whoever writes holds a lock, and first reads what
the others have appended. Both files are outside the seal of the folder, so that it still checks out.
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
    """A decision that could not be written, and may be sent again."""


class Review:
    """The rows of a folder's suspects.csv with what was decided of each; safe to use from threads."""

    def __init__(self, folder: Path, *, read_only: bool = False):
        self.folder, self.read_only = folder, read_only
        self.path = folder / CSV
        self.lock = threading.RLock()
        self.table_problem = ""  # why suspects.csv is behind the log, if it is
        self.reload()

    def reload(self) -> None:
        """Read table and log; bring suspects.csv up to date if a crash has left it behind."""
        if not self.path.is_file():
            raise DataError(
                f"{self.folder} has no {CSV}: nothing was suspected there, so there is nothing to review."
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
        """Return whether suspects.csv was changed by others since it was read."""
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
            self._take_over(now)

    def _read_table(self) -> bytes:
        self._seen = _signature(self.path)
        return self.path.read_bytes()

    def _table_before(self, start: LogStart) -> SuspectTable:
        """Read the table that the log begins from."""
        path = self.folder / BEFORE_REVIEW
        data = path.read_bytes() if path.is_file() else b""
        if _hash(data) != start.before:
            raise StoreError(
                f"{path} is missing or was changed, and {LOG} begins from it. Put it back, or rename {LOG} "
                f"to begin anew from {CSV} as it is."
            )
        return parse_table(data, path)

    def _set_aside(self) -> None:
        """Rename the log of a table that a later run has replaced; its decisions are kept."""
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
        """Return whether the table on disk is what a review wrote, before its last decision or after."""
        last = self.replay.decisions.get(self.replay.seq)
        known = {self._written_before(last), _hash(self.writer.render(self.replay.states))}
        return found in known

    def _written_before(self, last: Decision | None) -> str:
        start = self.log.start
        return last.table if last else start.before if start else ""

    def _take_over(self, now: SuspectTable) -> None:
        """Log what was edited outside the review, row by row."""
        states = self.replay.states
        differing = [i for i, state in enumerate(now.state) if state != states[i]]
        for state, rows in _grouped(differing, now.state):
            names = [self.replay.table.names[i] for i in rows]
            edit = Decision(0, "edit", names, state.new_label, state.note, state.flag)
            self._log(edit)

    # -- deciding --------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Apply what other servers have decided."""
        with self.lock:
            for decision in self.log.read_new():
                self.replay.apply(decision)

    def decide(self, decision: Decision) -> int:
        """Log a decision, apply it, write the table; return its number in the log.

        A decision whose key is in the log already is not repeated. Raises OSError where the log cannot be
        written: then nothing has changed.
        """
        self._refuse()
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
        """Undo the last decision of a page that is not undone yet; return it."""
        with self.lock:
            self.refresh()
            if key in self.replay.by_key:  # sent twice
                return self.replay.decisions[self.replay.decisions[self.replay.by_key[key]].undoes]
            last = self.replay.last_of(page)
            if last is None:
                raise UsageError("There is nothing to undo on this page.")
            self.decide(Decision(0, "undo", last.names, undoes=last.seq, key=key, page=page))
            return last

    def _refuse(self) -> None:
        if self.read_only:
            raise UsageError("This review is read-only: it was started with --read-only.")
        if who := writer_of(self.folder):
            raise UsageError(f"{self.folder} is being written by {who}. Wait until that has ended.")

    def _check_table(self) -> None:
        """Take over a table that was edited since it was read; raise if another run has replaced it."""
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
                f"{self.path} was replaced by another run. Reload the page to review the new one; what was "
                f"decided before is kept."
            )
        self._written = _hash(data)
        self._take_over(now)

    def _check(self, decision: Decision) -> None:
        """Raise unless a decision is about rows of the table, and a new label is another class."""
        rows, table = self.replay.rows, self.replay.table
        if unknown := [name for name in decision.names if name not in rows]:
            raise UsageError(f"{unknown[0]!r} is no image of this table.")
        labels = {table.labels[rows[name]] for name in decision.names}
        if decision.kind == "relabel" and decision.label in labels:
            raise UsageError(f"The label is {decision.label!r} already. Choose another class.")

    def _log(self, decision: Decision) -> int:
        """Append a decision to the log, and apply it; the table before the first one is kept."""
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
        """Keep the table as it is before the first decision, and begin the log."""
        data = self.path.read_bytes()
        try:
            write_bytes(self.folder / BEFORE_REVIEW, data)
        except StoreError as error:
            raise NotSavedError(_reason(error)) from None
        self.log.begin(LogStart(self.replay.table.identity, _hash(data)))

    def write_table(self) -> None:
        """Write suspects.csv; where that fails the log has it all, and the next decision tries again."""
        data = self.writer.render(self.replay.states)
        try:
            if _hash(data) != self._written:
                write_bytes(self.path, data)
        except (OSError, StoreError) as error:
            self.table_problem = (
                f"Every decision is in {LOG}, but {CSV} is behind: {_reason(error)}"
            )
            return
        self._written, self.table_problem = _hash(data), ""
        self._seen = _signature(self.path)


def _reason(error: Exception) -> str:
    """Return what a disk says, without advice that is about training."""
    return str(error).partition("Finished stages")[0].strip()


def _grouped(
    rows: Iterable[int], states: Sequence[RowState]
) -> Iterator[tuple[RowState, list[int]]]:
    """Yield rows that have the same state together."""
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
