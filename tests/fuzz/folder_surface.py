"""Damaged files of a run, an export and an audit give the same result, or an error that names the file."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch

import unspur
from unspur.runs import audit_folder
from unspur.runs.finished import open_run
from unspur.store.manifest import MANIFEST

from .desk import Desk
from .mutators import damage, damage_json
from .oracle import Case

EDITABLE = {"suspects.csv", "skipped.csv", "README.md", ".gitattributes", "report.html"}
FREE = {"pictures.safetensors"}  # files that may be missing


def make(rng: random.Random, desk: Desk) -> Case:
    """Return a case that reads a folder with one damaged, swapped, missing or unusual file."""
    folder, read = rng.choice(_readers(desk))
    path = rng.choice([p for p in sorted(folder.iterdir()) if p.is_file()])
    whole = path.read_bytes()
    how = _spoil(rng, path, whole)
    expected = _expected(folder, read)

    def undo() -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        path.write_bytes(whole)

    def right(found: Any, warned: list[str]) -> bool:
        unsealed = path.name == MANIFEST and any(MANIFEST in text for text in warned)
        free = path.name in EDITABLE or (path.name in FREE and not path.exists()) or unsealed
        same = path.is_file() and path.read_bytes() == whole
        return (free or same) and (_same(found, expected) or path.name in FREE)

    what = f"{how} {folder.name}/{path.name}"
    return Case(what, lambda: read(folder), right, (path.name,), undo)


def _spoil(rng: random.Random, path: Path, whole: bytes) -> str:
    """Damage a file in place; return a description of the damage."""
    how = rng.choice(["damage"] * 12 + ["swap", "swap", "remove", "folder", "pipe", "link"])
    if how == "damage":
        change = damage_json if path.suffix == ".json" else damage
        path.write_bytes(change(rng, whole))
    elif how == "swap":
        other = rng.choice([p for p in sorted(path.parent.iterdir()) if p.is_file()])
        path.write_bytes(other.read_bytes())
    else:
        path.unlink()
        _put(path, how)
    return how


def _put(path: Path, how: str) -> None:
    """Replace a file by something that is not a regular file."""
    if how == "folder":
        path.mkdir()
    elif how == "pipe":
        os.mkfifo(path)
    elif how == "link":
        path.symlink_to(path.name)


def _readers(desk: Desk) -> list[tuple[Path, Callable[[Path], Any]]]:
    def logits(folder: Path) -> torch.Tensor:
        with torch.no_grad():
            found: torch.Tensor = unspur.load(folder)(desk.images)
        return found

    return [
        (desk.run, logits),
        (desk.run / "ordinary", logits),
        (desk.export, logits),
        (desk.run, _facts_of_run),
        (desk.audit, _facts_of_audit),
    ]


def _facts_of_run(folder: Path) -> Any:
    run = open_run(folder)
    return run.about, run.scores, run.record, run.recipe, sorted(run.stages), run.missing


def _facts_of_audit(folder: Path) -> Any:
    audit = audit_folder.read(folder)
    return audit.about, audit.evidence, audit.facts


@cache
def _known() -> dict[tuple[Path, str], Any]:
    return {}


def _expected(folder: Path, read: Callable[[Path], Any]) -> Any:
    return _known().get((folder, read.__name__))


def prepare(desk: Desk) -> None:
    """Read every folder before it is damaged."""
    for folder, read in _readers(desk):
        _known()[folder, read.__name__] = read(folder)


def _same(found: Any, expected: Any) -> bool:
    if isinstance(found, torch.Tensor):
        return torch.equal(found, expected)
    return bool(found == expected)
