"""The store: artifacts by key, made once and found again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import StoreError
from ..parallel import from_first, process_count
from .artifacts import Artifact, environment, open_artifact
from .atomic import disk_trouble, locked
from .removal import hold
from .team_workspace import TeamWorkspace, share_artifact
from .workspace import Workspace

if TYPE_CHECKING:
    from torch import Tensor

    Work = Callable[[Workspace], tuple[Mapping[str, Tensor], Mapping[str, Any]]]


def key_of(ingredients: Mapping[str, Any]) -> str:
    """Return the key of the artifact that these ingredients make."""
    text = json.dumps(ingredients, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def default_store() -> str:
    """Return the folder or address where stages are stored unless said otherwise."""
    return os.environ.get("UNSPUR_STORE", "runs/store")


class Store:
    """A folder of artifacts."""

    def __init__(self, root: Path):
        self.root = root

    def path(self, ingredients: Mapping[str, Any]) -> Path:
        return self.root / f"{ingredients['stage']}-{key_of(ingredients)}"

    def has(self, path: Path) -> bool:
        """Return whether an artifact is stored, without looking into it."""
        return path.exists()

    def workspace(self, path: Path) -> Workspace:
        """Return the workspace in which an artifact is made."""
        kind = Workspace if process_count() == 1 else TeamWorkspace
        return kind(path.with_suffix(".partial"), finish=self.finish)

    def finish(self, path: Path) -> None:
        """Do what a finished artifact still needs: in a folder, nothing."""

    def find(self, ingredients: Mapping[str, Any]) -> Artifact | None:
        """Return the stored artifact, or None; a damaged one is set aside with a warning."""
        if process_count() == 1:
            return self.find_here(ingredients)
        artifact = from_first(lambda: self.find_here(ingredients))
        return None if artifact is None else share_artifact(artifact)

    def find_here(self, ingredients: Mapping[str, Any]) -> Artifact | None:
        """Look for an artifact as one process does."""
        path = self.path(ingredients)
        if not path.exists():
            return None
        try:
            artifact = open_artifact(path)
            if not hold(artifact):
                return None
            _warn_of_versions(artifact)
            return artifact
        except StoreError as error:
            aside = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
            with contextlib.suppress(FileNotFoundError):  # another process was first
                path.rename(aside)
            warnings.warn(f"{error} It is set aside as {aside.name} and made again.", stacklevel=2)
            return None

    def make(self, ingredients: Mapping[str, Any], work: Work) -> Artifact:
        """Return the artifact of these ingredients: from the store, or made by `work` and stored."""
        with self.making([ingredients]) as (stored, workspaces):
            for path, workspace in workspaces.items():
                stored[path] = workspace.promote(path, ingredients, *work(workspace))
        return stored[self.path(ingredients)]

    @contextlib.contextmanager
    def making(
        self, wanted: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[dict[Path, Artifact], dict[Path, Workspace]]]:
        """Yield the stored ones of several artifacts, and workspaces for the rest; both by path.

        Whoever promotes a workspace adds the artifact to the first. Other processes wait meanwhile, but for
        those of the same team, which work on the same artifacts.
        """
        if process_count() == 1:
            with self._making(wanted) as (stored, paths):
                yield stored, {path: self.workspace(path) for path in paths}
            return
        with contextlib.ExitStack() as locks:
            stored, paths = from_first(lambda: locks.enter_context(self._making(wanted)))
            stored = {path: share_artifact(artifact) for path, artifact in stored.items()}
            yield stored, {path: self.workspace(path) for path in paths}

    @contextlib.contextmanager
    def _making(
        self, wanted: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[dict[Path, Artifact], list[Path]]]:
        """Yield the stored ones of several artifacts, and the paths of the rest, which are locked."""
        stored: dict[Path, Artifact] = {}
        missing: list[Path] = []
        with disk_trouble(self.root), contextlib.ExitStack() as locks:
            # In one order for all processes, so that no two wait for each other.
            for path, ingredients in sorted({self.path(i): i for i in wanted}.items()):
                artifact = self.find_here(ingredients)
                if artifact is None:
                    locks.enter_context(locked(path))
                    artifact = self.find_here(ingredients)  # made by another process meanwhile
                if artifact is None:
                    missing.append(path)
                else:
                    stored[path] = artifact
            yield stored, missing

    def artifacts(self) -> Iterator[Path]:
        """Yield every folder of the store, finished, in progress or damaged."""
        if self.root.exists():
            yield from sorted(p for p in self.root.iterdir() if p.is_dir())


def _warn_of_versions(artifact: Artifact) -> None:
    """Warn where an artifact was made with other versions or threads; they are recorded, not keyed."""
    now, then = environment(), artifact.about["with"]
    others = [f"{name} {then[name]}" for name in ("torch", "unspur") if then[name] != now[name]]
    on_cpu = (
        artifact.about["ingredients"].get("device") == "cpu"
    )  # a GPU's sums do not depend on them
    if on_cpu and then.get("threads", now["threads"]) != now["threads"]:
        others.append(f"{then['threads']} threads instead of {now['threads']}")
    if others:
        warnings.warn(
            f"{artifact.path.name} was made with {' and '.join(others)}; it is used as it is.",
            stacklevel=3,
        )
