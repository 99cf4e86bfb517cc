"""Write images as WebDataset tar shards."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import NamedTuple

from ...errors import DataError
from ..custom.class_folders import SUFFIXES
from ..custom.listing import ListedImage, Listing, printable
from ..decoding.files import unreadable
from ..decoding.pixels import FORMATS, UnreadableImage, open_image

# The suffix of an image by its format; photographs of several frames (MPO) are JPEG.
FORMAT_SUFFIXES = {name: f".{name.lower()}" for name in FORMATS}
PER_SHARD = 10_000  # images in a shard at most
SHARD_BYTES = 512 * 2**20  # a shard that is larger gets no further image


class PackedImage(NamedTuple):
    """An image to pack: the unchanged bytes of its file, and its metadata."""

    content: bytes
    suffix: str
    number: int  # of its class
    about: Mapping[str, str]  # name, label, split, group


def read_listing(rows: Iterable[ListedImage], listing: Listing) -> Iterator[PackedImage]:
    """Yield the images of some rows of a listing, to pack them."""
    number = {name: place for place, name in enumerate(listing.classes())}
    for row in rows:
        try:
            content = row.path.read_bytes()
        except OSError as error:
            raise DataError(f"{row.path} cannot be read ({error.strerror}).") from None
        about = {"name": printable(row.path, listing.root), "label": row.label, "split": row.part}
        if row.group:
            about["group"] = row.group
        yield PackedImage(content, _suffix(row.path), number[row.label], about)


def _suffix(path: Path) -> str:
    """Return the suffix of an image in a shard: its own if it is usual, otherwise that of its format."""
    if (suffix := path.suffix.lower()) in SUFFIXES:
        return suffix
    try:
        with open_image(path) as image:
            return FORMAT_SUFFIXES.get(image.format or "", ".jpg")
    except UnreadableImage as error:
        raise unreadable(path, error) from error


def write_shards(
    images: Iterable[PackedImage], folder: Path, split: str, *, per_shard: int = PER_SHARD
) -> list[Path]:
    """Write the images of a split, at most `per_shard` to a shard; return the paths of the shards."""
    stream = iter(images)
    written: list[Path] = []
    numbers, image = count(), next(stream, None)
    while image is not None:
        path = folder / f"{split}-{len(written):06d}.tar"
        with tarfile.open(path, "x", format=tarfile.USTAR_FORMAT) as tar:
            for _ in range(per_shard):
                add_image(tar, f"{next(numbers):09d}", image)
                image = next(stream, None)
                if image is None or tar.offset > SHARD_BYTES:
                    break
        written.append(path)
    return written


def add_image(tar: tarfile.TarFile, key: str, image: PackedImage) -> None:
    """Add the files of an image to a shard: the image, the number of its class and its metadata."""
    _add(tar, f"{key}{image.suffix}", image.content)
    _add(tar, f"{key}.cls", str(image.number).encode())
    _add(tar, f"{key}.json", json.dumps(dict(image.about), ensure_ascii=False).encode())


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    """Add a file without owner and time, so that the same images always give the same bytes."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))
