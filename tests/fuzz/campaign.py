"""Run many cases of a surface. Each is a function of (seed, surface, number), so that it can be repeated."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from . import (
    bundle_surface,
    folder_surface,
    image_surface,
    json_surface,
    recipe_surface,
    review_surface,
    shape_surface,
    store_surface,
    table_surface,
)
from .desk import Desk
from .oracle import Tally, judge

SURFACES: dict[str, ModuleType] = {
    "json": json_surface,
    "folders": folder_surface,
    "store": store_surface,
    "recipes": recipe_surface,
    "tables": table_surface,
    "images": image_surface,
    "shapes": shape_surface,
    "bundles": bundle_surface,
    "reviews": review_surface,
}
# Shares of the cases: surfaces with quick cases have more.
SHARES = {
    "json": 0.28,
    "folders": 0.08,
    "store": 0.12,
    "recipes": 0.1,
    "tables": 0.2,
    "images": 0.15,
    "shapes": 0.04,
    "bundles": 0.01,
    "reviews": 0.02,
}


def attack(name: str, desk: Desk, seed: int, numbers: Iterable[int]) -> Tally:
    """Run and judge cases of one surface."""
    surface, tally = SURFACES[name], Tally()
    with contextlib.suppress(AttributeError):
        surface.prepare(desk)
    for number in numbers:
        case = surface.make(random.Random(f"{seed}/{name}/{number}"), desk)
        outcome, text = judge(case)
        tally.add(outcome, f"[{name} {number}] {text}")
        _note(desk, f"{name} {number} {case.what}")
    return tally


def _note(desk: Desk, text: str) -> None:
    """Write down the last case, in case the process crashes."""
    if "FUZZ_NOTES" in os.environ:
        Path(desk.root / "last.txt").write_text(text, "utf-8", "replace")
