"""Splits from what a user has: datasets, splits, a folder, a table, or a whole set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.utils.data import Dataset

from ...errors import DataError
from ..decoding.files import Files
from ..splits import Split, Splits
from .dataset import collect
from .images import load

Images = Dataset[Any] | Split | Files
Source = Images | Splits | Path | str


@dataclass(frozen=True)
class UserImages:
    """A user's images, not opened yet: a whole set as `train`, or a training split and other parts."""

    train: Source
    valid: Images | None = None
    test: Images | None = None
    bias: Mapping[str, Tensor] | None = None
    classes: tuple[str, ...] | None = None

    @property
    def in_files(self) -> bool:
        """Whether the images are read from files, at a size of choice."""
        return isinstance(self.train, Path | str)

    def open(self, limit: int, *, square: bool = False) -> Splits:
        """Return the images as splits; `limit` is the largest side of images that are read from files.

        With `square` all of these become squares of this size, smaller ones too.
        """
        if not isinstance(self.train, Splits | Path | str):
            return self._join()
        parts = (self.valid, self.test, self.bias, self.classes)
        if any(part is not None for part in parts):
            raise DataError(
                "a whole set has its own valid, test, bias and classes. Leave them out, or give a split."
            )
        if isinstance(self.train, Splits):
            return self.train
        if square:
            return load(self.train, size=(limit, limit))
        return load(self.train, limit=limit)

    def _join(self) -> Splits:
        """Return one set from its parts."""
        parts = {
            name: part if isinstance(part, Split | Files) else collect(part, name=name)
            for name in ("train", "valid", "test")
            if (part := getattr(self, name)) is not None
        }
        for name, part in parts.items():
            if len(part) == 0:
                raise DataError(f"the {name} split is empty.")
        names = self.classes or _numbers(parts)
        return Splits(**parts, classes=names, bias=self.bias or {})  # type: ignore[arg-type]


def _numbers(parts: Mapping[str, Split | Files]) -> tuple[str, ...]:
    """Name classes by their numbers."""
    count = 1 + max(int(part.targets.max()) for part in parts.values())
    return tuple(str(c) for c in range(count))
