"""A stage that several processes work on: the first process reads and writes, and sends what it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..parallel import any_of, broadcast_first, from_first, is_first
from .artifacts import Artifact
from .workspace import Workspace

if TYPE_CHECKING:
    from torch import Tensor


class TeamWorkspace(Workspace):
    """A workspace that all processes of a team share: one folder, written by the first process."""

    def __init__(self, path: Path, *, finish: Callable[[Path], None] = lambda path: None):
        if is_first():
            super().__init__(path, finish=finish)
        else:
            self.path, self.beside = path, 1

    def resume(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Return the first process's last checkpoint, in all processes."""
        return from_first(super().resume)

    def checkpoint(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        if is_first():
            super().checkpoint(tensors, facts)

    def log(self, row: Mapping[str, Any]) -> None:
        if is_first():
            super().log(row)

    def promote(
        self,
        target: Path,
        ingredients: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        facts: Mapping[str, Any],
    ) -> Artifact:
        """Store the first process's result as an artifact, and return it in all processes."""
        promote = super().promote
        return share_artifact(from_first(lambda: promote(target, ingredients, tensors, facts)))


def share_artifact(artifact: Artifact) -> Artifact:
    """Return an artifact that all processes can use: its tensors are sent if one cannot see its folder."""
    if any_of(not artifact.path.exists()):
        tensors = broadcast_first(artifact.tensors if is_first() else {})
        artifact.__dict__["tensors"] = tensors  # fills the cached property
    return artifact
