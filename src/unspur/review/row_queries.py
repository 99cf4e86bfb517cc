"""Select the rows that a page shows: filters, sorting, and stored selections."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import UsageError
from ..stages.corrections import SUSPECT
from .replay import DECIDED, Replay

SHOWN: dict[str, Callable[[Replay, int], bool]] = {
    "open": lambda r, i: r.base[i].flag == SUSPECT and r.status.get(i, "open") == "open",
    "suspects": lambda r, i: r.base[i].flag == SUSPECT,
    "decided": lambda r, i: r.status.get(i) in DECIDED,
    "skipped": lambda r, i: r.status.get(i) == "skipped",
    "all": lambda r, i: True,
}
SORTS = ("score", "weakest", "doubt", "name")
MOST_SELECTIONS = 32
MOST_ROWS = 1000  # largest number of rows in an answer


@dataclass(frozen=True)
class RowQuery:
    """A filter of rows and their order."""

    shown: str = "open"
    label: str = ""
    predicted: str = ""
    low: float = 0.0
    high: float = 1.0
    text: str = ""
    sort: str = "score"

    @staticmethod
    def of(values: Mapping[str, str]) -> RowQuery:
        """Read a query from URL parameters; raises UsageError if one is invalid."""
        texts = {name: values[name] for name in ("label", "predicted", "text") if name in values}
        query = RowQuery(
            shown=values.get("shown", "open"),
            low=_number(values.get("low") or "0"),
            high=_number(values.get("high") or "1"),
            sort=values.get("sort", "score"),
            **texts,
        )
        if query.shown not in SHOWN or query.sort not in SORTS:
            raise UsageError(f"Show one of {', '.join(SHOWN)}, sorted by {', '.join(SORTS)}.")
        return query


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a score. Write a number from 0 to 1.") from None


def select(replay: Replay, query: RowQuery) -> list[int]:
    """Return the rows that match a query, in its order."""
    table, shown = replay.table, SHOWN[query.shown]
    rows = [i for i in range(len(table)) if shown(replay, i)]
    if query.label:
        rows = [i for i in rows if table.labels[i] == query.label]
    if query.predicted:
        rows = [i for i in rows if table.predicted[i] == query.predicted]
    if query.low > 0 or query.high < 1:
        rows = [i for i in rows if query.low <= table.scores[i] <= query.high]
    if query.text:
        word = query.text.lower()
        rows = [i for i in rows if _mentions(replay, i, word)]
    return _sorted(replay, rows, query.sort)


def _mentions(replay: Replay, row: int, word: str) -> bool:
    """Return whether the name or the note of a row contains a word."""
    return word in replay.table.names[row].lower() or word in replay.states[row].note.lower()


def _sorted(replay: Replay, rows: list[int], sort: str) -> list[int]:
    scores, names = replay.table.scores, replay.table.names
    keys: dict[str, Callable[[int], Any]] = {
        "score": lambda i: -scores[i],
        "weakest": lambda i: scores[i],
        "doubt": lambda i: round(abs(scores[i] - 0.5), 6),
        "name": lambda i: names[i],
    }
    return sorted(rows, key=keys[sort])


class ForgottenSelection(UsageError):  # noqa: N818  (a state more than an error)
    """A selection that is no longer stored, for instance because the server was restarted."""


class Selections:
    """Stored selections, so that decisions do not change the list that a page is showing."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, list[int]] = OrderedDict()
        self._numbers = itertools.count(1)

    def add(self, rows: list[int]) -> str:
        """Store a selection, and remove the oldest if there are too many."""
        name = str(next(self._numbers))
        self._kept[name] = rows
        while len(self._kept) > MOST_SELECTIONS:
            self._kept.popitem(last=False)
        return name

    def rows(self, name: str) -> Sequence[int]:
        """Return the rows of a selection; raises ForgottenSelection if it is no longer stored."""
        if name not in self._kept:
            raise ForgottenSelection("This selection is no longer stored. Apply the filter again.")
        self._kept.move_to_end(name)
        return self._kept[name]


def describe_row(replay: Replay, row: int) -> dict[str, Any]:
    """Return a row in the form that the page uses."""
    table, state = replay.table, replay.states[row]
    return {
        "row": row,
        "name": table.names[row],
        "label": table.labels[row],
        "predicted": table.predicted[row],
        "score": round(table.scores[row], 4),
        "flag": state.flag,
        "new_label": state.new_label,
        "note": state.note,
        "status": replay.status.get(row, "open"),
        "suspect": replay.base[row].flag == SUSPECT,
    }


def typical_rows(replay: Replay, label: str, count: int) -> list[int]:
    """Return typical images of a class: unchanged rows that are not suspects, the lowest scores first."""
    table = replay.table
    members = [
        i
        for i, name in enumerate(table.labels)
        if name == label and replay.states[i] == replay.base[i] and not replay.base[i].flag
    ]
    return sorted(members, key=lambda i: table.scores[i])[:count]
