"""The index of shards: position, label, split, group, name and sha256 of each image, as arrays."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from ...errors import DataError
from ...store.addresses import join_address, read_address, write_address
from .tar_members import MOST_BYTES

FORMAT = 1
ABOUT, ARRAYS = "index.json", "index.safetensors"
PARTS = ("train", "valid", "test")
MOST_ABOUT = 2**28  # largest index.json in bytes
KINDS = {
    "shard": np.int32,
    "offset": np.int64,
    "size": np.int32,
    "label": np.int32,
    "part": np.uint8,
    "group": np.int32,
    "name_end": np.int64,
    "name_bytes": np.uint8,
    "sha256": np.uint8,
}


class CompactNames(Sequence[str]):
    """A sequence of names stored as one array of bytes, which needs a tenth of the memory of a list."""

    def __init__(self, data: NDArray[np.uint8], ends: NDArray[np.int64]):
        self.data, self.ends = data, ends

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        place = range(len(self))[place]
        start = int(self.ends[place - 1]) if place else 0
        return bytes(self.data[start : self.ends[place]]).decode("utf-8", "replace")

    def __iter__(self) -> Iterator[str]:
        return (self[place] for place in range(len(self)))

    def __repr__(self) -> str:
        """Return a short text that changes if any name changes."""
        content = hashlib.sha256(np.ascontiguousarray(self.data).data)
        content.update(np.ascontiguousarray(self.ends).data)
        return f"CompactNames({len(self)}, {content.hexdigest()})"

    def among(self, places: NDArray[np.int64]) -> CompactNames:
        """Return the names at some places."""
        names = [self[int(place)].encode() for place in places]
        ends = np.cumsum([len(name) for name in names], dtype=np.int64)
        return CompactNames(np.frombuffer(b"".join(names), np.uint8), ends)


@dataclass(frozen=True, eq=False)
class ShardIndex:
    """All images of a set of shards, as arrays, and the names of shards, classes and groups."""

    shards: tuple[str, ...]
    lengths: tuple[int, ...]  # bytes of each shard
    classes: tuple[str, ...]
    groups: tuple[str, ...]
    arrays: dict[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(self.arrays["shard"])

    @property
    def names(self) -> CompactNames:
        return CompactNames(self.arrays["name_bytes"], self.arrays["name_end"])

    def places(self, part: str) -> NDArray[np.int64]:
        """Return the places of the images of a split."""
        return np.flatnonzero(self.arrays["part"] == PARTS.index(part))


def write_index(index: ShardIndex, folder: Path | str) -> None:
    """Write the index of shards; index.json is written last, so that a folder with it is complete."""
    arrays = safetensors.numpy.save(
        {name: np.ascontiguousarray(index.arrays[name], kind) for name, kind in KINDS.items()}
    )
    about = {
        "format": FORMAT,
        "images": len(index),
        "classes": list(index.classes),
        "groups": list(index.groups),
        "shards": dict(zip(index.shards, index.lengths, strict=True)),
        "sha256": hashlib.sha256(arrays).hexdigest(),
    }
    for name, content in ((ARRAYS, arrays), (ABOUT, json.dumps(about, indent=1).encode())):
        place = join_address(folder, name)
        if isinstance(place, str):
            write_address(place, content)
        else:
            place.write_bytes(content)


def has_index(folder: Path | str) -> bool:
    """Return whether a folder, or an address, has shards with an index."""
    if isinstance(folder, str):
        return read_address(f"{folder.rstrip('/')}/{ABOUT}") is not None
    return (folder / ABOUT).is_file() and (folder / ARRAYS).is_file()


def read_index(folder: Path | str) -> ShardIndex:
    """Read the index of shards; raise DataError if it is incomplete or its values are impossible."""
    try:
        about = json.loads(_read(folder, ABOUT))
        content = _read(folder, ARRAYS)
        if about["format"] != FORMAT or about["sha256"] != hashlib.sha256(content).hexdigest():
            raise ValueError("its checksum or its format differs")
        arrays = safetensors.numpy.load(content)
        index = ShardIndex(
            tuple(about["shards"]),
            tuple(about["shards"].values()),
            tuple(map(str, about["classes"])),
            tuple(map(str, about["groups"])),
            {name: arrays[name] for name in KINDS},
        )
        _check(index)
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        safetensors.SafetensorError,
    ) as error:
        raise DataError(
            f"the index of {folder} is damaged ({error}). Make it again with `unspur data index`."
        ) from None
    return index


def _read(folder: Path | str, name: str) -> bytes:
    place = join_address(folder, name)
    if isinstance(place, Path) and name == ABOUT and place.stat().st_size > MOST_ABOUT:
        raise ValueError(f"{name} is too large")
    content = read_address(place) if isinstance(place, str) else place.read_bytes()
    if content is None:
        raise ValueError(f"{name} is missing")
    return content


def _check(index: ShardIndex) -> None:
    """Raise ValueError unless every value of the index is possible."""
    count, arrays = len(index), index.arrays
    if any(arrays[name].dtype != kind for name, kind in KINDS.items()):
        raise ValueError("an array has the wrong dtype")
    flat = [name for name in KINDS if name not in ("name_bytes", "sha256")]
    if not count or any(arrays[name].shape != (count,) for name in flat):
        raise ValueError("its arrays do not have the same length")
    if arrays["sha256"].shape != (count, 32):
        raise ValueError("the number of checksums is not the number of images")
    if any(name != Path(name).name or not name.endswith(".tar") for name in index.shards):
        raise ValueError("the name of a shard is not that of a .tar file in the folder")
    ranges = {"shard": len(index.shards), "label": len(index.classes), "part": len(PARTS)}
    if any(arrays[n].min() < 0 or arrays[n].max() >= most for n, most in ranges.items()):
        raise ValueError("the number of a shard, a class or a split is out of range")
    if arrays["group"].min() < -1 or arrays["group"].max() >= len(index.groups):
        raise ValueError("the number of a group is out of range")
    lengths = np.asarray(index.lengths, np.int64)[arrays["shard"]]
    sizes, offsets = arrays["size"].astype(np.int64), arrays["offset"]
    if sizes.min() < 0 or sizes.max() > MOST_BYTES or offsets.min() < 0:
        raise ValueError("an image has an impossible size or place")
    if (offsets + sizes > lengths).any():
        raise ValueError("an image lies outside its shard")
    ends = arrays["name_end"]
    if ends[-1] != len(arrays["name_bytes"]) or ends[0] < 0 or (np.diff(ends) < 0).any():
        raise ValueError("its names are cut off")
