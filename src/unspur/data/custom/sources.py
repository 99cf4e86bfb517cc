"""List the images of a folder or a table, and find where their groups are stored."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ...errors import DataError
from . import class_folders, table
from .listing import PARTS, ListedImage, Listing, printable
from .name_patterns import NamePattern, read_names


class GroupSource(NamedTuple):
    """The source of the groups of images: a column of the table, or a pattern of file names."""

    column: str = ""
    pattern: str = ""

    @staticmethod
    def of(text: str) -> GroupSource:
        """Return the source for a text: a pattern if it has a field in braces, otherwise a column."""
        return GroupSource(pattern=text) if "{" in text else GroupSource(column=text)


USUAL_GROUPS = GroupSource()  # the column `group` of a table, if it has one


def check_groups(name: str, groups: GroupSource) -> None:
    """Raise an error if a group source is given for shards, which were packed with their groups."""
    if groups not in (USUAL_GROUPS, GroupSource(column="group")):
        raise DataError(
            f"{name} has shards, whose groups were written when they were packed. Say where the groups are "
            "there: `unspur data pack ... --bias`; and leave it out here."
        )


def list_source(
    path: Path, groups: GroupSource = USUAL_GROUPS, *, need_train: bool = True
) -> Listing:
    """List the images of a folder or a table; with `need_train` there must be a training split."""
    pattern = NamePattern(groups.pattern) if groups.pattern else None
    named_classes = pattern is not None and "class" in pattern.fields
    if path.suffix.lower() in table.SUFFIXES and not path.is_dir():
        listing = table.list_images(path, group=groups.column, labelled=not named_classes)
    elif path.is_file():
        raise DataError(
            f"{printable(path)} is neither a folder of images nor a table ({', '.join(table.SUFFIXES)})."
        )
    elif groups.column:
        raise DataError(
            f"{printable(path)} is a folder, which has no column {groups.column!r}. Give a table, or a "
            "pattern of file names with the group, as in '*_{group}.png'."
        )
    elif named_classes:
        listing = _list_files(path)
    else:
        listing = class_folders.list_images(path, need_train=need_train)
    return read_names(listing, pattern) if pattern else listing


def _list_files(root: Path) -> Listing:
    """List all images below a folder, whose classes are in their names; train/ and test/ are splits."""
    if not root.is_dir():
        raise DataError(f"there is no folder {printable(root)}.")
    files = class_folders.images(root)
    if not files:
        raise DataError(
            f"{printable(root)} has no image ({', '.join(class_folders.SUFFIXES[:3])}, ...)."
        )
    rows = [ListedImage(file, "", _split_of(file.relative_to(root))) for file in files]
    return Listing(printable(root.resolve().name), root, rows)


def _split_of(path: Path) -> str:
    return PARTS.get(path.parts[0].lower(), "train") if len(path.parts) > 1 else "train"
