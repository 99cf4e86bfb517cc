"""Which rows a page shows, in which order: filters, sorting, and pages of a selection."""

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
MOST_ROWS = 1000  # of one answer


@dataclass(frozen=True)
class RowQuery:
    """A choice of rows and their order."""

    shown: str = "open"
    label: str = ""
    predicted: str = ""
    low: float = 0.0
    high: float = 1.0
    text: str = ""
    sort: str = "score"

    @staticmethod
    def of(values: Mapping[str, str]) -> RowQuery:
        """Read a query from the parameters of an address; raises UsageError where one is wrong."""
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
        raise UsageError(f"{text!r} is no score. Write a number from 0 to 1.") from None


def select(replay: Replay, query: RowQuery) -> list[int]:
    """Return the rows that a query asks for, in its order."""
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
    """Return whether the name or the note of a row has a word in it."""
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


class ForgottenSelection(UsageError):  # noqa: N818  (it was there once)
    """A selection that is not kept any more, as after a new start of the server."""


class Selections:
    """Rows as they were selected, so that deciding does not move what a page is scrolling through."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, list[int]] = OrderedDict()
        self._numbers = itertools.count(1)

    def add(self, rows: list[int]) -> str:
        """Keep a selection, and forget the oldest where there are many."""
        name = str(next(self._numbers))
        self._kept[name] = rows
        while len(self._kept) > MOST_SELECTIONS:
            self._kept.popitem(last=False)
        return name

    def rows(self, name: str) -> Sequence[int]:
        """Return the rows of a selection; raises ForgottenSelection where it is not kept any more."""
        if name not in self._kept:
            raise ForgottenSelection("This selection is forgotten. Select again.")
        self._kept.move_to_end(name)
        return self._kept[name]


def describe_row(replay: Replay, row: int) -> dict[str, Any]:
    """Return a row as the page gets it."""
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
    """Return the members of a class that contradict least: no suspects, those of the lowest score."""
    table = replay.table
    members = [
        i
        for i, name in enumerate(table.labels)
        if name == label and replay.states[i] == replay.base[i] and not replay.base[i].flag
    ]
    return sorted(members, key=lambda i: table.scores[i])[:count]
