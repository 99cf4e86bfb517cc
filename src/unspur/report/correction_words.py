"""A user's corrections of the suspects: sentences, and a table of the scores before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .words import Cell, Table, between, percent

PARTS = {
    "all": "images that both runs were scored on",
    "suspects": "of them that you marked as conflicting",
    "others": "other images of them",
}


@dataclass(frozen=True)
class CorrectionSummary:
    """The section of a run's page about the user's corrections."""

    sentences: list[str]
    table: Table | None
    examples: list[Mapping[str, str]]
    listed: str


def describe(record: Mapping[str, Any] | None) -> CorrectionSummary | None:
    """Return the section about the user's corrections; None for a run without them."""
    if record is None:
        return None
    scores, examples = record["scores"], record["examples"]
    parts = scores.get("parts") or {}
    listed = f"{len(examples):,} of " if record["changed"] > len(examples) else ""
    return CorrectionSummary(
        sentences=[_flags(record), *_removed(record), _effect(scores)],
        table=_table(parts) if parts else None,
        examples=examples,
        listed=f"{listed}{record['changed']:,} changed images",
    )


def _flags(record: Mapping[str, Any]) -> str:
    """Say how many suspects there are, and how many the user kept, cleared and added."""
    start = f"Your file {record['file']} flags {record['suspects']:,} images as conflicting."
    flags = record["flags"]
    if flags is None:
        return f"{start} The earlier flags are no longer stored, so your changes cannot be counted."
    if not flags["cleared"] and not flags["added"]:
        return f"{start} You changed no flag."
    return (
        f"{start} Of the suspects that were found you kept {flags['kept']:,} and cleared "
        f"{flags['cleared']:,}; you added {flags['added']:,}."
    )


def _removed(record: Mapping[str, Any]) -> list[str]:
    """Say how many images have a new label, and how many are left out."""
    found = []
    if count := record["relabelled"]:
        have = "1 image has" if count == 1 else f"{count:,} images have"
        found.append(f"{have} a new label, which all networks of this run were trained with.")
    if count := record["excluded"]:
        are = "1 image is" if count == 1 else f"{count:,} images are"
        found.append(f"{are} excluded from the training and the scores of this run.")
    return found


def _effect(scores: Mapping[str, Any]) -> str:
    """Say how the corrections changed the accuracy, or why this is not known."""
    if scores.get("missing"):
        return f"The effect on the scores is not known: {scores['missing']}"
    parts = scores["parts"]
    about = parts.get("all")
    if about is None:
        return "The runs cannot be compared: too few images were scored in both."
    unclear = about["low"] <= 0 <= about["high"]
    return (
        f"On {about['count']:,} images that both this run and the one in {scores['folder']} were scored on, "
        f"accuracy goes from {percent(about['before'])} to {percent(about['after'])} "
        f"(95 % interval of the difference {between((about['low'], about['high']), signed=True)})."
        f"{' This difference is not significant.' if unclear else ''} The interval covers only the choice of "
        "images; two trainings also differ by chance."
    )


def _table(parts: Mapping[str, Mapping[str, Any]]) -> Table:
    columns = [(name, f"{about['count']:,} {PARTS[name]}") for name, about in parts.items()]
    rows = [
        (title, [Cell(percent(about[key])) for about in parts.values()])
        for title, key in (("before", "before"), ("after", "after"))
    ]
    return Table(columns, [*rows, ("gain in points", [_gain(about) for about in parts.values()])])


def _gain(about: Mapping[str, Any]) -> Cell:
    points = f"{100 * (about['after'] - about['before']):+z.1f}".replace("-", "−")
    return Cell(points, between((about["low"], about["high"]), signed=True))
