"""Write an evaluation as JSON, as CSV and as Markdown tables."""

from __future__ import annotations

import csv
import html
import io
import json
from pathlib import Path
from typing import Any

from ..data.csv_text import escape_cell
from ..errors import StoreError
from ..store import read_json, refuse_file, write_bytes
from .evaluation import AccuracyShare, Evaluation, EvaluationRow, Kind
from .intervals import Interval
from .tables import markdown_table

SUFFIXES = (".json", ".csv", ".md")
BRACKETS = "Brackets: 95 % intervals over images."
GROUPED = "unbiased: the mean over groups. worst group: the group with the lowest accuracy."
DIVIDED = (
    "aligned, conflicting: images whose group is common or rare in their class, among the training images of "
    "{}. If the model was trained on other images, its shortcut may be another one."
)


def save_evaluation(found: Evaluation, path: Path) -> list[Path]:
    """Write the numbers as JSON and CSV, and the tables as Markdown; return the three files."""
    files = evaluation_files(path)
    files[0].parent.mkdir(parents=True, exist_ok=True)
    texts = (json.dumps(as_json(found), indent=1) + "\n", as_csv(found), as_markdown(found))
    for file, text in zip(files, texts, strict=True):
        write_bytes(file, text.encode())
    return files


def evaluation_files(path: Path) -> list[Path]:
    """Return the three files of an evaluation; raise StoreError if that would replace other files.

    The table that is scored may have the name of one of them. An earlier evaluation is replaced.
    """
    refuse_file(path.parent)
    base = path.with_suffix("") if path.suffix in SUFFIXES else path
    files = [base.with_name(base.name + suffix) for suffix in SUFFIXES]
    existing = [file for file in files if file.exists()]
    if existing and not _is_evaluation(files[0]):
        raise StoreError(
            f"{existing[0]} exists and is not from an evaluation. Choose another --out: the scores are "
            f"written to {', '.join(file.name for file in files)}."
        )
    return files


def _is_evaluation(path: Path) -> bool:
    try:
        return {"models", "rows"} <= read_json(path).keys()
    except StoreError:
        return False


def as_json(found: Evaluation) -> dict[str, Any]:
    """Return the numbers for JSON; the accuracy on no images is null."""
    return {
        "data": found.data,
        "split": found.split,
        "images": found.images,
        **({"training_images": found.training_images} if found.training_images else {}),
        "models": list(found.models),
        "rows": [_row_json(row) for row in found.rows],
    }


def _row_json(row: EvaluationRow) -> dict[str, Any]:
    scores = {
        model: {
            "accuracy": _number(share.value),
            "interval": [_number(bound) for bound in share.interval],
            **({"group": share.note} if share.note else {}),
        }
        for model, share in row.accuracy.items()
    }
    gain = row.gain and {"points": row.gain[0], "interval": list(row.gain[1])}
    facts = {"kind": row.kind, "name": row.name, "images": row.images, **scores}
    return facts | ({"gain": gain} if gain else {})


def _number(value: float) -> float | None:
    return None if value != value else value


def as_csv(found: Evaluation) -> str:
    """Return one line for each row and model."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["kind", "name", "images", "model", "accuracy", "low", "high"])
    for row in found.rows:
        for model, share in row.accuracy.items():
            numbers = (_number(number) for number in (share.value, *share.interval))
            cells = ["" if number is None else f"{number:.6f}" for number in numbers]
            writer.writerow([row.kind, escape_cell(row.name), row.images, model, *cells])
    return text.getvalue()


def as_markdown(found: Evaluation) -> str:
    """Return the tables of an evaluation, with a line above them that says what was scored."""
    lines = [_in_markdown(f"{describe_evaluation(found)} {found.doubt}"), ""]
    for kind in ("overall", "class", "group"):
        header, *rows = table_of(found, kind)
        if rows:
            cells = [list(map(_in_markdown, row)) for row in rows]
            lines += [*markdown_table(header, cells), ""]
    notes = [_in_markdown(note) for note in table_notes(found)]
    return "\n".join([*lines, *notes, ""])


def table_notes(found: Evaluation) -> list[str]:
    """Return the sentences below the tables, which say what their numbers are."""
    notes = [BRACKETS]
    if any(row.kind == "group" for row in found.rows):
        notes.append(GROUPED)
    if any(row.name == "conflicting" for row in found.rows if row.kind == "overall"):
        notes.append(DIVIDED.format(found.data))
    return notes


def _in_markdown(text: str) -> str:
    """Escape what names of classes and groups may contain and a table would not show as it is."""
    return html.escape(" ".join(text.split()), quote=False).replace("|", "\\|")


def describe_evaluation(found: Evaluation) -> str:
    """Return a line that says which images were scored."""
    part = f" of the {found.split} split" if found.split else ""
    return f"{found.data}: {found.images:,} images{part}."


def table_of(found: Evaluation, kind: Kind) -> list[list[str]]:
    """Return the rows of one kind as text, with a header."""
    rows = [row for row in found.rows if row.kind == kind]
    gains = any(row.gain for row in rows)
    first = "accuracy" if kind == "overall" else kind
    header = [first, "images", *found.models, *(["gain in points"] if gains else [])]
    return [header, *(_cells(row, found.models, gains) for row in rows)]


def _cells(row: EvaluationRow, models: tuple[str, ...], gains: bool) -> list[str]:
    cells = [row.name, f"{row.images:,}", *(share_text(row.accuracy[model]) for model in models)]
    return [*cells, *([_gain_text(row.gain)] if gains else [])]


def share_text(share: AccuracyShare) -> str:
    """Format an accuracy with its interval, in per cent."""
    if share.value != share.value:
        return "–"
    note = f" ({share.note})" if share.note else ""
    return f"{100 * share.value:.1f} %{_between(share.interval)}{note}"


def _gain_text(gain: tuple[float, Interval] | None) -> str:
    if gain is None:
        return ""
    low, high = (f"{100 * end:+z.1f}" for end in gain[1])
    return f"{100 * gain[0]:+z.1f} [{low} to {high}]".replace("-", "−")


def _between(interval: Interval) -> str:
    if interval[0] != interval[0]:
        return ""
    low, high = (f"{100 * end:.1f}" for end in interval)
    return f" [{low} to {high}]"
