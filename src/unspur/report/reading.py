"""A run as its folder and the store tell it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..bundle import read_json
from ..errors import StoreError
from ..store import Artifact, open_artifact


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


def open_run(folder: Path, store: Path | None = None) -> Finished:
    """Read a run's folder and what the store still has of its stages."""
    record = read_json(folder / "run.json")
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
        recipe=(folder / "recipe.toml").read_text("utf-8"),
        stages=stages,
        missing=tuple(name for name in record["stages"] if name not in stages),
    )
