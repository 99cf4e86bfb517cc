"""BFFHQ: faces whose age nearly always agrees with the gender, in the layout of the public release.

The set cannot be generated. Any `<x>pct` folder works, with the variations that `layout` accepts. The images
in `extra_conflict`, which are all conflicting, are used only on request.
"""

from __future__ import annotations

from pathlib import Path

import torch

from ...errors import DataError
from ..decoding.pixel_cache import decode
from ..splits import Split, Splits
from .layout import Entry, _class_names, _entries, _shared_entries, _train_entries

NAME, EXTRA = "bffhq", "extra_conflict"
CLASSES, GENDERS = ("young", "old"), ("female", "male")
SIZE = 128


def load(
    root: Path,
    ratio: str = "0.5pct",
    *,
    size: int = SIZE,
    extra: bool = False,
    cache: Path | None = None,
) -> Splits:
    """Load the faces below `root`/bffhq or `root`, resized, in the order of their sorted paths.

    `extra` adds the images in `extra_conflict` to the training split; `cache` is a folder to store pixels in.
    """
    folder = find(root, ratio)
    entries = {
        "train": _train_entries(folder, ratio) + (_extra(folder) if extra else []),
        "valid": _shared_entries(folder, ratio, "valid"),
        "test": _shared_entries(folder, ratio, "test"),
    }
    _check_present(entries, folder, ratio)
    _check_labels(entries)
    splits = {
        part: _split(part_entries, folder, part, size, cache)
        for part, part_entries in entries.items()
    }
    return Splits(
        train=splits["train"],
        valid=splits["valid"],
        test=splits["test"],
        classes=CLASSES,
        bias={part: torch.tensor([entry.bias for entry in entries[part]]) for part in splits},
        bias_classes=GENDERS,
        name=f"{NAME}/{ratio}" + (f"+{EXTRA}" if extra else ""),
    )


def _check_present(entries: dict[str, list[Entry]], folder: Path, ratio: str) -> None:
    """Raise DataError if a split has no image."""
    for part, part_entries in entries.items():
        if not part_entries:
            where = folder / ratio / "align" if part == "train" else folder / part
            raise DataError(
                f"BFFHQ is incomplete: {where} holds no image (.png or .jpg). Put the {part} images, "
                "named <id>_<target>_<bias>, there."
            )


def find(root: Path, ratio: str) -> Path:
    """Return the folder that contains the folders of the ratios."""
    folder = root / NAME if (root / NAME).is_dir() else root
    if not any(path.is_dir() for path in folder.glob("*pct")):
        raise DataError(
            f"there is no BFFHQ in {root}. Get the public release and put its folders "
            f"{ratio}/align, {ratio}/conflict, valid and test into {root / NAME}."
        )
    return folder


def _extra(folder: Path) -> list[Entry]:
    entries = _entries(folder / EXTRA)
    if not entries:
        raise DataError(
            f"{folder / EXTRA} holds no image, but extra conflicting images were requested. Put them there."
        )
    for path, target, bias in entries:
        if target == bias:
            raise DataError(
                f"{path}: target and bias are both {bias}, which does not conflict. Move the file."
            )
    return entries


def _check_labels(entries: dict[str, list[Entry]]) -> None:
    """Raise DataError unless both labels of every file are 0 or 1."""
    all_entries = [entry for part in entries.values() for entry in part]
    _class_names(CLASSES, "target", [(entry.target, entry.path) for entry in all_entries])
    _class_names(GENDERS, "bias", [(entry.bias, entry.path) for entry in all_entries])


def _split(entries: list[Entry], folder: Path, part: str, size: int, cache: Path | None) -> Split:
    paths = [entry.path for entry in entries]
    return Split(
        decode(paths, size=size, cache=cache, name=f"{NAME}-{part}-{size}"),
        torch.tensor([entry.target for entry in entries]),
        tuple(path.relative_to(folder).as_posix() for path in paths),
    )
