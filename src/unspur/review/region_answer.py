"""The effect of hiding a region, in the words that the page shows."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..probe import wording
from ..probe.cues import Region
from ..probe.findings import ChangeEffect, ClassEffect, ModelEffect, Probe

MOST_SENTENCES = 3  # about classes, for each model
MOST_CLASSES = 12  # rows of the table of classes
MOST_FLIPS = 6  # pictures
EXPLANATION = (
    "Brackets: 95 % intervals of paired differences, over images. Hidden pixels get the mean colour of all "
    "images. Hiding anything can lower the accuracy of any model. So the last sentence about each model "
    "compares two exchanges that damage images equally."
)


def describe_answer(found: Probe, total: int) -> dict[str, Any]:
    """Return everything that the page shows about a hidden region; `total` is the size of the table."""
    change = found.changes[0]
    return {
        "headline": f"{wording.headline(found)}.",
        "sample": _sample(found, total),
        "models": [{"name": name, "sentences": _sentences(change, name)} for name in change.models],
        "comparison": _comparison(change),
        "classes": _class_rows(found, change),
        "class_count": len(change.first.classes),
        "flips": [
            {"name": flip.name, "label": flip.label, "before": flip.before, "after": flip.after}
            for flip in change.flips[:MOST_FLIPS]
        ],
        "explanation": EXPLANATION,
    }


def _sample(found: Probe, total: int) -> str:
    if found.images == total:
        return f"Measured on all {total:,} training images of the table."
    return (
        f"Measured on a sample of {found.images:,} of the {total:,} training images of the table, evenly "
        "spread over the classes."
    )


def _sentences(change: ChangeEffect, name: str) -> list[str]:
    effect = change.models[name]
    rows = wording.flipped_classes(effect)[:MOST_SENTENCES]
    return [
        _lead(effect),
        *(_class_sentence(row) for row in rows),
        wording.effect_sentence(change, name),
    ]


def _lead(effect: ModelEffect) -> str:
    right = effect.right
    return (
        f"Without this region, {effect.flipped:,} of {right.count:,} predictions change. Accuracy: "
        f"{wording.percent(right.before)} to {wording.percent(right.after)}, "
        f"{wording.points(right.difference)} points [{wording.between(right.interval)}]."
    )


def _class_sentence(row: ClassEffect) -> str:
    """Return how many images of a class become another class, and the accuracy on the class."""
    return (
        f"{row.taken} of {row.recognised} correctly classified images of {row.name} "
        f"become {row.taken_for} (accuracy on {row.name}: {wording.points(row.right.difference)} points "
        f"[{wording.between(row.right.interval)}])."
    )


def _comparison(change: ChangeEffect) -> str:
    if "debiased" not in change.models:
        return "This run has no debiased model to compare with: its model is the ordinary one."
    return wording.gap_sentence(change)


def _class_rows(found: Probe, change: ChangeEffect) -> list[list[str]]:
    """Return a header and the classes whose accuracy the first model loses most of."""
    header, *rows = wording.class_table(found, change)
    losses = [row.right.difference for row in change.first.classes]
    order = sorted(range(len(rows)), key=lambda i: losses[i])[:MOST_CLASSES]
    return [header, *(rows[i] for i in order)]


def probe_command(folder: Path, region: Sequence[int]) -> str:
    """Return the command that tests the same region on the test images of a run."""
    numbers = ",".join(map(str, region))
    return shlex.join(["unspur", "probe", str(folder), "--hide", "region", numbers])


def corners_of(region: Region) -> list[int]:
    """Return left, top, width and height of a region."""
    return [region.left, region.top, region.width, region.height]
