"""Damaged files of a store: artifacts are renamed with a warning, logs and checkpoints are recovered."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import torch

from toys import same
from unspur.store import Store, Workspace, open_artifact
from unspur.store.artifacts import FACTS, LOG, TENSORS
from unspur.store.workspace import CHECKPOINT

from .desk import Desk
from .mutators import damage, damage_json
from .oracle import Case


def make(rng: random.Random, desk: Desk) -> Case:
    return rng.choice([_artifact, _artifact, _log, _checkpoint])(rng, desk)


def _artifact(rng: random.Random, desk: Desk) -> Case:
    """Return a case with a damaged artifact, which must be renamed with a warning that names it."""
    folder = rng.choice(_artifacts(desk))
    path = folder / rng.choice([FACTS, TENSORS])
    whole = path.read_bytes()
    artifact = open_artifact(folder)
    ingredients = artifact.about["ingredients"]
    expected = artifact.tensors
    about = artifact.about
    path.write_bytes(_spoil(rng, path, whole))

    def undo() -> None:
        for aside in desk.store.glob(f"{folder.name}.damaged-*"):
            aside.rename(folder)
        path.write_bytes(whole)

    def right(found: Any, warned: list[str]) -> bool:
        if found is None:
            return any(folder.name in text for text in warned)
        return bool(found.about == about) and same(found.tensors, expected)

    return Case(
        f"{folder.name}/{path.name}",
        lambda: Store(desk.store).find(ingredients),
        right,
        (folder.name,),
        undo,
    )


def _log(rng: random.Random, desk: Desk) -> Case:
    """Return a case with a damaged log, which must give rows of numbers and a warning."""
    path = rng.choice(sorted(desk.store.glob(f"*/{LOG}")))
    whole = path.read_bytes()
    artifact = open_artifact(path.parent)
    path.write_bytes(damaged := _spoil(rng, path, whole))

    def right(found: list[dict[str, Any]], warned: list[str]) -> bool:
        return damaged == whole or any(LOG in text for text in warned)

    return Case(
        f"{path.parent.name}/{LOG}",
        lambda: artifact.log,
        right,
        (LOG,),
        lambda: path.write_bytes(whole),
    )


def _checkpoint(rng: random.Random, desk: Desk) -> Case:
    """Return a case with a damaged checkpoint, which must be ignored with a warning or give the same bits."""
    root = desk.root / "workspace.partial"
    workspace = Workspace(root)
    tensors = {"w": torch.arange(6.0), "n": torch.tensor([rng.randrange(9)])}
    workspace.log({"step": 1})
    workspace.checkpoint(tensors, {"step": 1})
    path = root / rng.choice([CHECKPOINT, CHECKPOINT, LOG])
    whole = path.read_bytes()
    path.write_bytes(damaged := damage(rng, whole))

    def right(found: Any, warned: list[str]) -> bool:
        if found is None:
            return any(CHECKPOINT in text for text in warned)
        return same(found[0], tensors) and (path.name == LOG or damaged == whole)

    return Case(
        f"workspace/{path.name}",
        lambda: Workspace(root).resume(),
        right,
        (path.name,),
        lambda: shutil.rmtree(root),
    )


def _spoil(rng: random.Random, path: Path, whole: bytes) -> bytes:
    return (damage_json if path.suffix == ".json" else damage)(rng, whole)


def _artifacts(desk: Desk) -> list[Path]:
    return [path for path in sorted(desk.store.iterdir()) if path.is_dir()]
