"""Unusual folder trees of images give every image of every class once, or an error that names the folder."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

from unspur.data.custom.sources import list_source

from .desk import Desk
from .oracle import Case

NAMES = ["cat", "dog", "train", "test", "valid", "align", "a\nb", " x ", "ü", ".hidden", "-r", "=1"]
ENDS = [".png", ".JPG", ".txt", "", ".png.bak", ".webp"]


def make(rng: random.Random, desk: Desk) -> Case:
    root = desk.root / "shapes"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for _ in range(rng.randrange(6)):
        _grow(rng, root, depth=rng.randrange(3))

    def right(found: Any, warned: list[str]) -> bool:
        listed = [str(row.path) for row in found.rows]
        real = all(os.path.lexists(path) and not os.path.isdir(path) for path in listed)
        labels = all(row.label for row in found.rows)
        return labels and real and len(set(listed)) == len(listed) and _count(root) <= len(listed)

    return Case(
        f"folder {sorted(map(str, root.rglob('*')))}"[:400],
        lambda: list_source(root),
        right,
        ("shapes",),
        lambda: shutil.rmtree(root, ignore_errors=True),
    )


def _grow(rng: random.Random, folder: Path, depth: int) -> None:
    """Add a folder with files, links, pipes and more folders."""
    place = folder / rng.choice(NAMES)
    if place.exists() and not place.is_dir():
        return
    place.mkdir(exist_ok=True)
    for number in range(rng.randrange(4)):
        _add(rng, place / f"{number}{rng.choice(ENDS)}")
    if depth:
        _grow(rng, place, depth - 1)


def _add(rng: random.Random, path: Path) -> None:
    if os.path.lexists(path):
        return
    how = rng.randrange(8)
    if how == 0:
        path.symlink_to(path.name)
    elif how == 1:
        os.mkfifo(path)
    elif how == 2:
        path.symlink_to(rng.choice(["..", ".", "/nonexistent"]))
    elif how == 3:
        path.mkdir()
    else:
        path.write_bytes(b"x")


def _count(root: Path) -> int:
    """Return how many images are in class folders that are neither a split nor hidden."""
    if any((root / name).is_dir() for name in ("train", "test", "valid")):
        return 0  # other files are left out, with a warning
    ends = (".png", ".jpg", ".webp")
    names = [path.relative_to(root) for path in root.rglob("*") if path.name.lower().endswith(ends)]
    shown = [name for name in names if not any(part.startswith(".") for part in name.parts)]
    return sum(len(name.parts) > 1 and not (root / name).is_dir() for name in shown)
