"""An image folder: a subfolder for each class, optionally below train, valid and test.

photos/cat/1.jpg            photos/train/cat/1.jpg
photos/dog/2.jpg            photos/valid/dog/2.jpg (val, validation), photos/test/...
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

from ...errors import DataError
from .listing import (
    PARTS,
    ListedImage,
    Listing,
    check_class_count,
    names_of_splits,
    printable,
)

SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".bmp", ".gif", ".tif", ".tiff", ".webp"),
    *(".ppm", ".pgm", ".pbm"),
)
# Formats that are not read. A warning counts such files, as the data would otherwise shrink silently.
OTHER_IMAGES = (
    *(".heic", ".heif", ".avif", ".jxl", ".jp2", ".psd", ".svg", ".dcm", ".exr"),
    *(".dng", ".nef", ".cr2", ".cr3", ".arw"),
)


def list_images(root: Path, *, need_train: bool = True) -> Listing:
    """List the images below a folder, sorted by path; hidden files and other files are ignored."""
    if not root.is_dir():
        raise DataError(f"there is no folder {printable(root)}.")
    below = _folders(root)
    for name, path in below.items():
        if (path / "align").is_dir():
            raise DataError(
                f"{printable(path)} is a benchmark in its public layout, not a folder of classes. Use a "
                f'recipe with data.name = "folder" and data.ratio = "{name}", and --data-root '
                f"{printable(root)}."
            )
    named = [name for name in below if name.lower() in PARTS]
    only_parts = bool(named) and len(named) == len(below)
    train = [below[name] for name in named if PARTS[name.lower()] == "train"]
    # A folder train/ with images and no folders, beside others, is the class of trains.
    if not only_parts and not any(map(_folders, train)):
        parts = {"train": root}
        if train:
            text = f"{printable(root)}: train/ has no folders, so it is taken for a class named 'train'."
            warnings.warn(text, stacklevel=2)
    else:
        names = names_of_splits(named, printable(root))
        parts = {part: below[name] for part, name in names.items()}
        if not train and need_train:
            raise DataError(
                f"{printable(root)} has {', '.join(parts)} but no folder train/. Add one."
            )
        odd = below.keys() - named
        _warn_ignored(root, sorted(map(printable, odd)), "folder{s} beside train/")
    rows = [row for part, folder in parts.items() for row in _rows(folder, part)]
    if not rows:
        raise DataError(
            f"{printable(root)} has no image in class folders ({', '.join(SUFFIXES[:3])}, ...). Put the "
            "images of each class into a folder named after it, as in photos/cat/1.jpg."
        )
    return Listing(printable(root.resolve().name), root, rows)


def images(folder: Path) -> list[Path]:
    """Return all image files below a folder, sorted."""
    return [Path(path) for path in sorted(_files(os.fspath(folder), set())) if _is_image(path)]


def _rows(folder: Path, part: str) -> Iterator[ListedImage]:
    loose = [
        entry.name for entry in _entries(folder) if _is_image(entry.name) and not _is_folder(entry)
    ]
    _warn_ignored(folder, sorted(map(printable, loose)), "image{s} outside of class folders")
    folders = _folders(folder)
    check_class_count(len(folders), printable(folder))
    empty, unread, labels = list[str](), list[str](), set[str]()
    for name, path in sorted(folders.items()):
        if (label := printable(name)) in labels:
            raise DataError(
                f"{printable(folder)} has two folders {label!r}, whose names differ in bytes that are not "
                "UTF-8. Rename one of them."
            )
        labels.add(label)
        files = sorted(_files(os.fspath(path), set()))
        used = [Path(file) for file in files if _is_image(file)]
        unread += [f"{label}/{printable(Path(f).name)}" for f in files if not _is_image(f)]
        if not used:
            empty.append(label)
        for file in used:
            yield ListedImage(file, label, part)
    _warn_ignored(folder, empty, "class folder{s} without images")
    _warn_ignored(folder, unread, "image{s} in formats that are not read (convert to PNG or JPEG)")


def _folders(root: Path) -> dict[str, Path]:
    entries = (entry for entry in _entries(root) if not entry.name.startswith("."))
    return {entry.name: Path(entry.path) for entry in entries if _is_folder(entry)}


def _files(folder: str, seen: set[tuple[int, int]]) -> Iterator[str]:
    """Yield images in any format as strings; many Path objects take longer to create than files to find."""
    facts = os.stat(folder)
    if (facts.st_dev, facts.st_ino) in seen:
        return  # a link to a folder that was visited already
    seen.add((facts.st_dev, facts.st_ino))
    folders = list[str]()
    for entry in _entries(folder):
        if entry.name.startswith("."):
            continue
        if _is_folder(entry):
            folders.append(entry.path)
        elif entry.name.lower().endswith((*SUFFIXES, *OTHER_IMAGES)):
            yield entry.path
    for path in sorted(folders):  # the first of two links to one folder does not depend on the disk
        yield from _files(path, seen)


def _entries(folder: Path | str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        raise DataError(f"cannot list the folder {printable(folder)} ({error.strerror}).") from None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a folder or a link to one; False for a link that cannot be followed."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_image(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def _warn_ignored(root: Path, names: list[str], kind: str) -> None:
    if not names:
        return
    examples = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    kind = kind.format(s="" if len(names) == 1 else "s")
    warnings.warn(f"{printable(root)}: ignored {len(names)} {kind}: {examples}.", stacklevel=4)
