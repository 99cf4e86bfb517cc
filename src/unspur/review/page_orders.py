"""Requests of the page that change something: decide, undo, start and stop work.

Each function gets the JSON object `body` of a request and returns the answer.
"""

from __future__ import annotations

from ..errors import StoreError, UsageError
from .decision_log import KINDS, Decision
from .region_job import parse_region
from .region_sample import sample_rows
from .review_desk import MOST_CHANGES, Answer, ReviewDesk


def decide(desk: ReviewDesk, body: Answer) -> Answer:
    """Log one decision about some rows."""
    kind = body.get("kind")
    if kind not in KINDS or kind in ("undo", "edit"):
        raise UsageError(f"{kind!r} is not a kind of decision. Reload the page.")
    label, note, key, page = (_text(body, name) for name in ("label", "note", "key", "page"))
    if kind == "relabel" and label not in desk.classes:
        raise UsageError(f"There is no class {label!r}. Choose one of the list.")
    names, rows = desk.review.replay.table.names, _requested_rows(desk, body)
    images = [names[row] for row in rows]
    seq = desk.review.decide(Decision(0, kind, images, label, note, key=key, page=page))
    return {"decision": seq, **_changed(desk, rows)}


def _text(body: Answer, name: str) -> str:
    """Return a value as text that can be written in UTF-8."""
    return str(body.get(name) or "").encode("utf-8", "replace").decode()


def _changed(desk: ReviewDesk, rows: list[int]) -> Answer:
    """Return the current state of rows, unless there are many, and the progress."""
    described = desk.describe(rows[:MOST_CHANGES])
    return {"rows": described, "reload": len(rows) > MOST_CHANGES, **desk.progress()}


def _requested_rows(desk: ReviewDesk, body: Answer) -> list[int]:
    """Return the rows of a request, which has row numbers or ranges of positions in a selection."""
    if body.get("table", desk.table_name) != desk.table_name:
        raise StoreError("Another run has replaced the table. Reload the page.")
    rows = _rows_of_ranges(desk, body) if "ranges" in body else body.get("rows", [])
    count = len(desk.review.replay.table)
    is_valid = isinstance(rows, list) and all(type(row) is int and 0 <= row < count for row in rows)
    if not is_valid or not rows:
        raise UsageError("Select at least one image of the table.")
    return list(dict.fromkeys(rows))


def _rows_of_ranges(desk: ReviewDesk, body: Answer) -> list[int]:
    selected = desk.selections.rows(str(body.get("selection")))
    try:
        return [row for begin, end in body["ranges"] for row in selected[begin:end]]
    except (TypeError, ValueError):
        raise UsageError("A range must be two positions in the selection.") from None


def undo(desk: ReviewDesk, body: Answer) -> Answer:
    """Undo the last decision of a page."""
    last = desk.review.undo(_text(body, "page"), _text(body, "key"))
    rows = [desk.review.replay.rows[name] for name in last.names]
    return {"undone": last.kind, **_changed(desk, rows)}


def start_debias(desk: ReviewDesk, body: Answer) -> Answer:
    """Start the debias command with the current suspects.csv."""
    if desk.review.read_only:
        raise UsageError("This review is read-only. Copy the command and run it in a terminal.")
    with desk.review.lock:
        if desk.review.table_problem:
            desk.review.write_table()
        if desk.review.table_problem:
            raise UsageError(desk.review.table_problem)
    desk.job.start()
    return desk.job.state()


def stop_debias(desk: ReviewDesk, body: Answer) -> Answer:
    """Stop the debias command as Ctrl-C does."""
    desk.job.stop()
    return desk.job.state()


def start_region(desk: ReviewDesk, body: Answer) -> Answer:
    """Hide a region in a sample of images, and compare the predictions; nothing is written."""
    model = desk.regions.model()
    region = parse_region(body.get("region"), model.shape)
    with desk.review.lock:
        sample = sample_rows(desk.review.replay, model.classes)
    desk.regions.start(region, sample, desk.images)
    return desk.regions.state()


def stop_region(desk: ReviewDesk, body: Answer) -> Answer:
    """Stop the test of a region."""
    desk.regions.stop()
    return desk.regions.state()
