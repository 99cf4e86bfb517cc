"""Splits from the user's input: datasets, splits, a folder, a table, or a complete data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.utils.data import Dataset

from ...errors import DataError
from ..decoding.files import Files
from ..splits import Split, Splits, open_splits
from .dataset import collect, dataset_classes
from .images import load
from .listing import check_class_count
from .sources import GroupSource

Images = Dataset[Any] | Split | Files
Source = Images | Splits | Path | str


@dataclass(frozen=True)
class UserImages:
    """A user's images, not opened yet: a complete data set as `train`, or a training split and others.

    `bias` are the bias labels of each split. For a folder or a table it is a text: the name of a column, or
    a pattern of file names with `{group}`.
    """

    train: Source
    valid: Images | None = None
    test: Images | None = None
    bias: Mapping[str, Tensor] | str | None = None
    classes: tuple[str, ...] | None = None
    _opened: dict[tuple[int, bool], Splits] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def in_files(self) -> bool:
        """Return whether the images are read from files, so that their size can be chosen."""
        return isinstance(self.train, Path | str)

    @property
    def source(self) -> str:
        """Return the path or name of a folder, a table or a dataset of the hub; otherwise empty text."""
        return str(self.train) if self.in_files else ""

    def open(self, limit: int, *, square: bool = False) -> Splits:
        """Return the images as splits; `limit` is the largest side of images that are read from files.

        With `square`, images from files are resized to squares of this size, even if they are smaller. Images
        are opened once for each size.
        """

        def read() -> Splits:
            if not isinstance(self.train, Splits | Path | str):
                return self._join()
            self._check_whole()
            if isinstance(self.train, Splits):
                return self.train
            size: dict[str, Any] = {"size": (limit, limit)} if square else {"limit": limit}
            return load(self.train, **size, **self._groups())

        if (limit, square) not in self._opened:
            self._opened[limit, square] = open_splits(read)
        return self._opened[limit, square]

    def _check_whole(self) -> None:
        """Raise if a complete data set comes with splits, bias labels or classes, which it has itself."""
        written = isinstance(self.bias, str) and self.in_files
        parts = (self.valid, self.test, None if written else self.bias, self.classes)
        if any(part is not None for part in parts):
            raise DataError(
                "a complete data set has its own valid, test, bias and classes. Leave them out, or "
                "give a split."
            )

    def _groups(self) -> dict[str, Any]:
        return {"groups": GroupSource.of(self.bias)} if isinstance(self.bias, str) else {}

    def _join(self) -> Splits:
        """Return one data set from the splits."""
        parts = {
            name: part if isinstance(part, Split | Files) else collect(part, name=name)
            for name in ("train", "valid", "test")
            if (part := getattr(self, name)) is not None
        }
        for name, part in parts.items():
            if len(part) == 0:
                raise DataError(f"the {name} split is empty.")
        if isinstance(self.bias, str):
            raise DataError(
                f"bias={self.bias!r} names a column or a pattern, and a dataset has neither. Give the labels "
                'of each split, as in bias={"train": labels}.'
            )
        names = self.classes or _class_names(self.train, parts)
        if len(names) < 2:
            raise DataError(
                "all images have the same class; a classifier needs two or more classes."
            )
        return Splits(**parts, classes=names, bias=self.bias or {})  # type: ignore[arg-type]


def _class_names(train: object, parts: Mapping[str, Split | Files]) -> tuple[str, ...]:
    """Return the class names of the training data, or numbers if it has none."""
    count = 1 + max(int(part.targets.max()) for part in parts.values())
    check_class_count(count, "the data set")
    named = dataset_classes(train)
    return named if len(named) >= count else tuple(str(c) for c in range(count))
