"""The page of a probe: which cues the model uses, the effect of every change, and changed predictions."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..probe import wording
from ..probe.findings import ChangeEffect, Probe
from ..store import make_folder, write_bytes
from .pictures import SMALL, uri
from .templates import render_template

PAGE, NUMBERS = "probe.html", "probe.json"
MOST_SENTENCES = 4  # about changed predictions, for each change


def save_probe(found: Probe, out: Path, *, command: str = "") -> Path | None:
    """Write probe.json and probe.html into a folder; without the extra `report` only probe.json."""
    make_folder(out)
    write_bytes(out / NUMBERS, (json.dumps(wording.as_json(found), indent=1) + "\n").encode())
    try:
        write_bytes(out / PAGE, render(found, command).encode())
    except ModuleNotFoundError as error:
        warnings.warn(f"no {PAGE} was written: {error}.", stacklevel=2)
        return None
    return out / PAGE


def render(found: Probe, command: str = "") -> str:
    """Return the page as text."""
    return render_template("probe.html.j2", content(found, command))


def content(found: Probe, command: str) -> dict[str, Any]:
    """Return the variables of the page's template."""
    header, *rows = wording.table_of(found)
    return {
        "found": found,
        "headline": wording.headline(found),
        "kind": "found" if found.claims else "clear",
        "lead": wording.effect_sentence(found.changes[0], found.models[0]),
        "explanation": wording.EXPLANATION,
        "header": header,
        "rows": rows,
        "sections": [_section(found, change) for change in found.changes],
        "command": command,
    }


def _section(found: Probe, change: ChangeEffect) -> dict[str, Any]:
    header, *rows = wording.class_table(found, change)
    sentences = [wording.effect_sentence(change, model) for model in found.models]
    flipped = wording.flipped_classes(change.first)[:MOST_SENTENCES]
    return {
        "change": change,
        "sentences": [*sentences, *filter(None, [wording.gap_sentence(change)])],
        "flips": [wording.flip_sentence(change, row) for row in flipped],
        "header": header,
        "rows": rows,
        "pictures": [_pictures(flip.picture, flip.changed, flip) for flip in change.flips],
        "tiny": bool(change.flips) and max(change.flips[0].picture.shape[1:]) <= SMALL,
    }


def _pictures(before: Tensor, after: Tensor, flip: Any) -> dict[str, Any]:
    return {"before": uri(as_bytes(before)), "after": uri(as_bytes(after)), "flip": flip}


def as_bytes(image: Tensor) -> Tensor:
    """Return an image as bytes (3, H, W); floats are scaled to the whole range 0 to 255."""
    if image.dtype != torch.uint8:
        low, high = image.min(), image.max()
        image = ((image - low) / (high - low).clamp_min(1e-6) * 255).round().byte()
    return image if len(image) == 3 else image[:1].expand(3, -1, -1)
