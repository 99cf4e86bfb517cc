"""What the page orders: a decision, an undo, to debias or to stop that. Each takes a JSON object."""

from __future__ import annotations

from ..errors import StoreError, UsageError
from .decision_log import KINDS, Decision
from .review_desk import MOST_CHANGES, Answer, ReviewDesk


def decide(desk: ReviewDesk, told: Answer) -> Answer:
    """Log one decision about some rows."""
    kind = told.get("kind")
    if kind not in KINDS or kind in ("undo", "edit"):
        raise UsageError(f"{kind!r} is no decision.")
    label, note, key, page = (
        str(told.get(name) or "") for name in ("label", "note", "key", "page")
    )
    if kind == "relabel" and label not in desk.classes:
        raise UsageError(f"There is no class {label!r}.")
    names, rows = desk.review.replay.table.names, _told_rows(desk, told)
    chosen = [names[row] for row in rows]
    seq = desk.review.decide(Decision(0, kind, chosen, label, note, key=key, page=page))
    return {"decision": seq, **_changed(desk, rows)}


def _changed(desk: ReviewDesk, rows: list[int]) -> Answer:
    """Return rows as they are now, unless they are many, and the progress."""
    described = desk.describe(rows[:MOST_CHANGES])
    return {"rows": described, "reload": len(rows) > MOST_CHANGES, **desk.progress()}


def _told_rows(desk: ReviewDesk, told: Answer) -> list[int]:
    """Return the rows that a request is about: their numbers, or places of a selection as ranges."""
    if told.get("table", desk.table_name) != desk.table_name:
        raise StoreError("The table was replaced by another run. Reload the page.")
    rows = _rows_of_ranges(desk, told) if "ranges" in told else told.get("rows", [])
    count = len(desk.review.replay.table)
    right = isinstance(rows, list) and all(type(row) is int and 0 <= row < count for row in rows)
    if not right or not rows:
        raise UsageError("Name at least one row of the table.")
    return list(dict.fromkeys(rows))


def _rows_of_ranges(desk: ReviewDesk, told: Answer) -> list[int]:
    selected = desk.selections.rows(str(told.get("selection")))
    try:
        return [row for begin, end in told["ranges"] for row in selected[begin:end]]
    except (TypeError, ValueError):
        raise UsageError("A range is two places of the selection.") from None


def undo(desk: ReviewDesk, told: Answer) -> Answer:
    """Undo the last decision of a page."""
    page, key = str(told.get("page") or ""), str(told.get("key") or "")
    last = desk.review.undo(page, key)
    rows = [desk.review.replay.rows[name] for name in last.names]
    return {"undone": last.kind, **_changed(desk, rows)}


def start_debias(desk: ReviewDesk, told: Answer) -> Answer:
    """Start the command with suspects.csv as it is now."""
    if desk.review.read_only:
        raise UsageError("This review is read-only: copy the command and run it yourself.")
    with desk.review.lock:
        if desk.review.table_problem:
            desk.review.write_table()
        if desk.review.table_problem:
            raise UsageError(desk.review.table_problem)
    desk.job.start()
    return desk.job.state()


def stop_debias(desk: ReviewDesk, told: Answer) -> Answer:
    """Stop the command as Ctrl-C does."""
    desk.job.stop()
    return desk.job.state()
