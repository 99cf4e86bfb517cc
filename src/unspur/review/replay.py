"""The current state of every row: the table with all decisions that were not undone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple

from ..stages.corrections import EXCLUDE, SUSPECT
from .decision_log import Decision
from .suspect_table import RowState, SuspectTable

STATUS = {
    "confirm": "confirmed",
    "clear": "cleared",
    "relabel": "relabelled",
    "exclude": "excluded",
    "skip": "skipped",
    "edit": "edited",
}
DECIDED = frozenset(STATUS.values()) - {"skipped"}


class RowView(NamedTuple):
    """The state of a row, and the status of its decision: open, confirmed, cleared, relabelled, ..."""

    state: RowState
    status: str = "open"


class Replay:
    """A table and its decisions in order; `changed` maps each row to the last decision about it."""

    def __init__(self, table: SuspectTable, decisions: Iterable[Decision] = ()):
        self.table = table
        self.rows = {name: i for i, name in enumerate(table.names)}
        self.base = list(table.state)
        self.states = list(table.state)
        self.status: dict[int, str] = {}
        self.active: dict[int, list[Decision]] = {}
        self.decisions: dict[int, Decision] = {}
        self.by_key: dict[str, int] = {}
        self.undone: set[int] = set()
        self.changed: dict[int, int] = {}
        self.seq = 0
        for decision in decisions:
            self.apply(decision)

    def apply(self, decision: Decision) -> None:
        """Apply a decision to its rows."""
        self.seq = decision.seq
        self.decisions[decision.seq] = decision
        if decision.key:
            self.by_key[decision.key] = decision.seq
        if decision.kind == "undo":
            self.undone.add(decision.undoes)
        for row in [self.rows[name] for name in decision.names if name in self.rows]:
            active = self.active.setdefault(row, [])
            if decision.kind == "undo":
                active[:] = [each for each in active if each.seq != decision.undoes]
            else:
                active.append(decision)
            view = reduce(_after, active, RowView(self.base[row]))
            self.states[row], self.status[row] = view
            self.changed[row] = decision.seq

    def last_of(self, page: str) -> Decision | None:
        """Return the last decision of a page that was not undone."""
        own = (d for d in reversed(self.decisions.values()) if d.page == page)
        return next((d for d in own if d.kind != "undo" and d.seq not in self.undone), None)

    def counts(self) -> dict[str, int]:
        """Count the images, the suspects, the decided suspects, and the rows of each status."""
        suspects = [i for i, state in enumerate(self.base) if state.flag == SUSPECT]
        by_status = Counter(self.status.values())
        return {
            "images": len(self.table),
            "suspects": len(suspects),
            "decided": sum(1 for i in suspects if self.status.get(i) in DECIDED),
            **{status: by_status.get(status, 0) for status in STATUS.values()},
        }


def _after(before: RowView, decision: Decision) -> RowView:
    """Return the state of a row after a decision."""
    state, status = before.state, STATUS.get(decision.kind, before.status)
    if decision.kind == "note":
        return RowView(state._replace(note=decision.note), status)
    if decision.kind == "skip":
        return RowView(state, status)
    if decision.kind == "edit":
        return RowView(RowState(decision.flag, decision.label, decision.note), status)
    flag = {"confirm": SUSPECT, "exclude": EXCLUDE}.get(decision.kind, "")
    label = decision.label if decision.kind == "relabel" else ""
    return RowView(state._replace(flag=flag, new_label=label), status)
