"""The store: results of stages, computed once and found again by their keys."""

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

from ..parallel import from_first, process_count
from .artifacts import Artifact, DamagedArtifact, environment, open_artifact
from .atomic import disk_trouble, locked
from .removal import hold
from .team_workspace import TeamWorkspace, share_artifact
from .workspace import Workspace

if TYPE_CHECKING:
    from torch import Tensor

    Work = Callable[[Workspace], tuple[Mapping[str, Tensor], Mapping[str, Any]]]


def key_of(ingredients: Mapping[str, Any]) -> str:
    """Return the key of an artifact: a hash of its ingredients, which is everything that it depends on."""
    text = json.dumps(ingredients, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def default_store() -> str:
    """Return the default folder or address of the store."""
    return os.environ.get("UNSPUR_STORE", "runs/store")


class Store:
    """A folder of artifacts."""

    def __init__(self, root: Path):
        self.root = root

    def path(self, ingredients: Mapping[str, Any]) -> Path:
        return self.root / f"{ingredients['stage']}-{key_of(ingredients)}"

    def has(self, path: Path) -> bool:
        """Return whether an artifact is stored, without checking that it is undamaged."""
        return path.exists()

    def workspace(self, path: Path) -> Workspace:
        """Return the workspace in which an artifact is computed."""
        kind = Workspace if process_count() == 1 else TeamWorkspace
        return kind(path.with_suffix(".partial"), finish=self.finish)

    def finish(self, path: Path) -> None:
        """Handle a finished artifact. A local store has nothing to do; a remote one uploads it."""

    def find(self, ingredients: Mapping[str, Any]) -> Artifact | None:
        """Return the stored artifact, or None. A damaged artifact is renamed, with a warning."""
        if process_count() == 1:
            return self.find_here(ingredients)
        artifact = from_first(lambda: self.find_here(ingredients))
        return None if artifact is None else share_artifact(artifact)

    def find_here(self, ingredients: Mapping[str, Any]) -> Artifact | None:
        """Look for an artifact in this process alone, without the other processes of a team."""
        path = self.path(ingredients)
        if not path.exists():
            return None
        try:
            artifact = open_artifact(path)
            if not hold(artifact):
                return None
            _warn_of_versions(artifact)
            return artifact
        except DamagedArtifact as error:
            aside = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
            with contextlib.suppress(FileNotFoundError):  # another process has renamed it
                path.rename(aside)
            warnings.warn(
                f"{error} It was renamed to {aside.name} and is computed again.", stacklevel=2
            )
            return None

    def make(self, ingredients: Mapping[str, Any], work: Work) -> Artifact:
        """Return the artifact of these ingredients; if it is not stored, store the result of `work` first."""
        with self.open_artifacts([ingredients]) as (stored, workspaces):
            for path, workspace in workspaces.items():
                stored[path] = workspace.promote(path, ingredients, *work(workspace))
        return stored[self.path(ingredients)]

    @contextlib.contextmanager
    def open_artifacts(
        self, requests: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[dict[Path, Artifact], dict[Path, Workspace]]]:
        """Yield the requested artifacts that are stored, and workspaces for the others, both by path.

        `requests` has the ingredients of each artifact. The caller promotes the workspaces and adds the new
        artifacts to the first dictionary. The missing artifacts are locked in the meantime: other processes
        wait for them, except those of the same team, which work on the same artifacts.
        """
        if process_count() == 1:
            with self._making(requests) as (stored, paths):
                yield stored, {path: self.workspace(path) for path in paths}
            return
        with contextlib.ExitStack() as locks:
            stored, paths = from_first(lambda: locks.enter_context(self._making(requests)))
            stored = {path: share_artifact(artifact) for path, artifact in stored.items()}
            yield stored, {path: self.workspace(path) for path in paths}

    @contextlib.contextmanager
    def _making(
        self, requests: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[dict[Path, Artifact], list[Path]]]:
        """Yield the requested artifacts that are stored, and the paths of the others, which are locked."""
        stored: dict[Path, Artifact] = {}
        missing: list[Path] = []
        with disk_trouble(self.root), contextlib.ExitStack() as locks:
            # All processes lock in the same order, so that they cannot deadlock.
            for path, ingredients in sorted({self.path(i): i for i in requests}.items()):
                artifact = self.find_here(ingredients)
                if artifact is None:
                    locks.enter_context(locked(path))
                    artifact = self.find_here(ingredients)  # another process may have stored it
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
    """Warn if an artifact was computed with other versions or threads, which are not part of its key."""
    now, then = environment(), artifact.about["with"]
    others = [f"{name} {then[name]}" for name in ("torch", "unspur") if then[name] != now[name]]
    on_cpu = (
        artifact.about["ingredients"].get("device") == "cpu"
    )  # results of a GPU do not depend on the number of threads
    if on_cpu and then.get("threads", now["threads"]) != now["threads"]:
        others.append(f"{then['threads']} threads instead of {now['threads']}")
    if others:
        warnings.warn(
            f"{artifact.path.name} was computed with {' and '.join(others)}; it is used unchanged.",
            stacklevel=3,
        )
