"""Read a finished run from its folder and from the store."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import StoreError
from ..store import Artifact, check_folder, damage, open_artifact, read_json
from .audit_folder import RECORD
from .intervals import Intervals, bootstrap
from .model_description import read_description
from .result_folder import kind_of


@dataclass(frozen=True)
class Finished:
    """A finished run; `missing` are stages that are no longer in its store."""

    folder: Path
    about: dict[str, Any]
    scores: dict[str, Any]
    record: dict[str, Any]
    recipe: str
    stages: dict[str, Artifact]
    missing: tuple[str, ...]
    store: Path

    @property
    def classes(self) -> list[str]:
        return list(self.about["classes"])

    @property
    def intervals(self) -> Intervals | None:
        """The intervals of all accuracies; None if the predictions are no longer stored."""
        evaluated = self.stages.get("evaluate")
        if evaluated is None or "targets" not in evaluated.tensors:
            return None
        return bootstrap(evaluated.tensors)


def is_audit(folder: Path) -> bool:
    """Return True for the folder of an audit, False for that of a run; raise StoreError for any other."""
    kind = kind_of(folder)
    if kind is not None:
        return kind == "audit"
    what = f"it holds neither run.json nor {RECORD}" if folder.exists() else "it does not exist"
    raise StoreError(f"{folder} is not the folder of a run or of an audit: {what}.")


def open_run(folder: Path, store: Path | None = None) -> Finished:
    """Read a run's folder, and those of its stages that are still in the store."""
    check_folder(folder, "run.json")
    record = read_json(folder / "run.json")
    names = _artifact_names(folder / "run.json", record)
    store = store or folder / str(record.get("store", "../store"))
    stages = _open_stages(store, names)
    return Finished(
        folder=folder,
        about=read_description(folder),
        scores=read_json(folder / "scores.json"),
        record=record,
        recipe=_text(folder / "recipe.toml"),
        stages=stages,
        missing=tuple(name for name in names if name not in stages),
        store=store,
    )


def stored_intervals(folder: Path) -> Intervals | None:
    """Return the intervals of a run's accuracies, or None if they cannot be computed any more."""
    try:
        return open_run(folder).intervals
    except StoreError:
        return None


def _artifact_names(path: Path, record: Mapping[str, Any]) -> dict[str, str]:
    """Return the artifacts that a run's record names, by stage."""
    try:
        names = {stage: about["artifact"] for stage, about in record["stages"].items()}
    except (LookupError, TypeError, AttributeError):
        names = {"": ""}
    if not all(
        isinstance(name, str) and name and name == Path(name).name for name in names.values()
    ):
        raise damage(path, "its stages do not name artifacts", "run")
    return names


def _open_stages(store: Path, names: Mapping[str, str]) -> dict[str, Artifact]:
    """Return the artifacts that are stored and undamaged."""
    stages: dict[str, Artifact] = {}
    for stage, name in names.items():
        with contextlib.suppress(StoreError):
            stages[stage] = open_artifact(store / name)
    return stages


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path} cannot be read ({error}).") from None
