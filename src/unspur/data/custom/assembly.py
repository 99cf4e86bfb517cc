"""Splits from what a Python user has: datasets, splits, a folder, a table, or a whole set."""

from __future__ import annotations

from collections.abc import Mapping
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


def assemble(
    train: Source,
    valid: Images | None = None,
    test: Images | None = None,
    bias: Mapping[str, Tensor] | None = None,
    classes: tuple[str, ...] | None = None,
    *,
    limit: int,
) -> Splits:
    """Return one set from its parts; `limit` is the largest side of images that are read from files."""
    if isinstance(train, Splits | Path | str):
        if any(part is not None for part in (valid, test, bias, classes)):
            raise DataError(
                "a whole set has its own valid, test, bias and classes. Leave them out, or give a split."
            )
        return train if isinstance(train, Splits) else load(train, limit=limit)
    sources = {"train": train, "valid": valid, "test": test}
    parts = {
        name: part if isinstance(part, Split | Files) else collect(part, name=name)
        for name, part in sources.items()
        if part is not None
    }
    for name, part in parts.items():
        if len(part) == 0:
            raise DataError(f"the {name} split is empty.")
    names = classes or _numbers(parts)
    return Splits(**parts, classes=names, bias=bias or {})  # type: ignore[arg-type]


def _numbers(parts: Mapping[str, Split | Files]) -> tuple[str, ...]:
    """Name classes by their numbers."""
    count = 1 + max(int(part.targets.max()) for part in parts.values())
    return tuple(str(c) for c in range(count))
