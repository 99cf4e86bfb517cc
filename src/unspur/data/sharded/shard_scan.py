"""Build the index of shards by reading every tar once; nothing is extracted."""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError
from ..custom.class_folders import SUFFIXES
from ..custom.listing import PARTS as PART_NAMES
from ..custom.listing import check_class_count, in_order
from .shard_index import KINDS, PARTS, ShardIndex
from .tar_members import Member, list_members

MOST_TEXT = 2**16  # largest label or metadata in bytes
LABEL, ABOUT = ".cls", ".json"


class ScannedImage(NamedTuple):
    """An image in a shard: where its bytes are, and what is known of it."""

    offset: int
    size: int
    sha256: bytes
    label: str
    part: str
    group: str
    name: str


def scan_shards(folder: Path) -> ShardIndex:
    """Return the index of all shards of a folder, in the order of their names."""
    paths = sorted(folder.glob("*.tar"))
    if not paths:
        raise DataError(f"{folder} has no shard (*.tar). Write some with `unspur data pack`.")
    columns = IndexColumns()
    for number, path in enumerate(paths):
        for image in scan_shard(path):
            columns.add(number, image)
    if not columns.shard:
        raise DataError(f"{folder}: its shards have no image.")
    check_class_count(len(columns.classes), str(folder))
    return columns.index(paths)


class IndexColumns:
    """The columns of an index while shards are read, with a few bytes for each image."""

    def __init__(self) -> None:
        self.shard, self.label, self.group = array("i"), array("i"), array("i")
        self.size, self.offset, self.name_end = array("i"), array("q"), array("q")
        self.part, self.name_bytes, self.sha256 = bytearray(), bytearray(), bytearray()
        self.classes: dict[str, int] = {}  # in the order in which they appear
        self.groups: dict[str, int] = {}

    def add(self, shard: int, image: ScannedImage) -> None:
        self.shard.append(shard)
        self.offset.append(image.offset)
        self.size.append(image.size)
        self.label.append(self.classes.setdefault(image.label, len(self.classes)))
        self.group.append(
            self.groups.setdefault(image.group, len(self.groups)) if image.group else -1
        )
        self.part.append(PARTS.index(image.part))
        self.name_bytes += image.name.encode("utf-8", "replace")
        self.name_end.append(len(self.name_bytes))
        self.sha256 += image.sha256

    def index(self, paths: Sequence[Path]) -> ShardIndex:
        """Return the index, with classes and groups sorted."""
        classes, groups = in_order(set(self.classes)), in_order(set(self.groups))
        columns = {name: np.array(getattr(self, name), kind) for name, kind in KINDS.items()}
        columns["sha256"] = columns["sha256"].reshape(-1, 32)
        columns["label"] = _renumber(columns["label"], self.classes, classes)
        columns["group"] = _renumber(columns["group"], self.groups, groups)
        lengths = tuple(path.stat().st_size for path in paths)
        return ShardIndex(tuple(path.name for path in paths), lengths, classes, groups, columns)


def _renumber(
    column: NDArray[np.int32], before: dict[str, int], after: Sequence[str]
) -> NDArray[np.int32]:
    """Convert numbers of names from the order `before` to the order `after`; -1 stays."""
    places = np.full(len(before) + 1, -1, np.int32)
    for place, name in enumerate(after):
        places[before[name]] = place
    return places[column]


def scan_shard(path: Path) -> Iterator[ScannedImage]:
    """Yield the images of a shard; members with the same name up to the first dot belong together.

    Members without a name before the dot, such as the `._1.png` of macOS, or without a suffix are ignored.
    """
    with path.open("rb") as file:
        sample: dict[str, Member] = {}
        key = ""
        for member in list_members(file, os.fstat(file.fileno()).st_size, str(path)):
            member_key, suffix = split_key(member.name)
            if not suffix:
                continue
            if member_key != key and sample:
                yield _image(file, path, key, sample)
                sample = {}
            key, sample[suffix] = member_key, member
        if sample:
            yield _image(file, path, key, sample)


def split_key(name: str) -> tuple[str, str]:
    """Return the name of a sample and the suffix of one of its files, as the webdataset package does.

    Both are empty if the file belongs to no sample.
    """
    path = PurePosixPath(name)
    stem, dot, suffix = path.name.partition(".")
    if not stem or not dot:
        return "", ""
    return str(path.with_name(stem)), (dot + suffix).lower()


def _image(file: IO[bytes], path: Path, key: str, sample: dict[str, Member]) -> ScannedImage:
    image = next((member for end, member in sample.items() if end in SUFFIXES), None)
    about = _metadata(file, path, sample[ABOUT]) if ABOUT in sample else {}
    label = about.get("label") or (_text(file, path, sample[LABEL]) if LABEL in sample else "")
    if image is None or not label:
        lacks = "image" if image is None else f"label ({LABEL}, or label in {ABOUT})"
        raise DataError(f"{path}: the sample {key!r} has no {lacks}.")
    file.seek(image.offset)
    content = hashlib.sha256(file.read(image.size)).digest()
    part = _part(path, key, about.get("split", ""))
    name = about.get("name") or image.name
    return ScannedImage(
        image.offset, image.size, content, label, part, about.get("group", ""), name
    )


def _part(path: Path, key: str, split: str) -> str:
    """Return the split of a sample, from its metadata or else from the name of the shard."""
    if not split:
        return PART_NAMES.get(path.name.partition("-")[0].lower(), "train")
    if split.lower() not in PART_NAMES:
        raise DataError(
            f"{path}: the split of the sample {key!r} is {split!r}. Write train, valid or test, or leave it "
            "out."
        )
    return PART_NAMES[split.lower()]


def _text(file: IO[bytes], path: Path, member: Member) -> str:
    if member.size > MOST_TEXT:
        raise DataError(f"{path}: {member.name!r} has {member.size} bytes, more than {MOST_TEXT}.")
    file.seek(member.offset)
    try:
        return file.read(member.size).decode("utf-8").strip()
    except UnicodeDecodeError:
        raise DataError(f"{path}: {member.name!r} is not text in UTF-8.") from None


def _metadata(file: IO[bytes], path: Path, member: Member) -> dict[str, str]:
    """Return the fields of a sample's metadata that are text or whole numbers; others are ignored."""
    try:
        content = json.loads(_text(file, path, member))
    except (ValueError, RecursionError):
        raise DataError(f"{path}: {member.name!r} is not JSON.") from None
    found = content if isinstance(content, dict) else {}
    return {key: str(value) for key, value in found.items() if type(value) in (str, int)}
