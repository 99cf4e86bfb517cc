"""A run as its folder and the store tell it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import StoreError
from ..store import Artifact, open_artifact, read_json
from .audit_folder import RECORD


@dataclass(frozen=True)
class Finished:
    """A finished run; `missing` are stages that are no longer stored."""

    folder: Path
    about: dict[str, Any]
    scores: dict[str, Any]
    record: dict[str, Any]
    recipe: str
    stages: dict[str, Artifact]
    missing: tuple[str, ...]

    @property
    def classes(self) -> list[str]:
        return list(self.about["classes"])


def is_audit(folder: Path) -> bool:
    """Return whether a folder is an audit's, not a run's; raise if it is neither."""
    if (folder / "run.json").exists():
        return False
    if (folder / RECORD).exists():
        return True
    what = f"it holds neither run.json nor {RECORD}" if folder.exists() else "it does not exist"
    raise StoreError(f"{folder} is not the folder of a run or of an audit: {what}.")


def open_run(folder: Path, store: Path | None = None) -> Finished:
    """Read a run's folder and what the store still has of its stages."""
    record = read_json(folder / "run.json")
    if not isinstance(record.get("stages"), dict):
        raise StoreError(f"{folder / 'run.json'} is damaged (it says nothing of stages).")
    where = store or folder / record.get("store", "../store")
    stages: dict[str, Artifact] = {}
    for name, stage in record["stages"].items():
        try:
            stages[name] = open_artifact(where / stage["artifact"])
        except StoreError:
            continue
    return Finished(
        folder=folder,
        about=read_json(folder / "model.json"),
        scores=read_json(folder / "scores.json"),
        record=record,
        recipe=_text(folder / "recipe.toml"),
        stages=stages,
        missing=tuple(name for name in record["stages"] if name not in stages),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path} cannot be read ({error}).") from None
