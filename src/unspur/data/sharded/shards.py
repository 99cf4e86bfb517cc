"""A split whose images are in shards. They are read in any order and are never all in memory.

Memory for each image: its place (16 bytes), its SHA-256 (32), its label (8), its name (8 and its characters).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...store.addresses import explain_failure, join_address, open_filesystem
from ..decoding.decoding_process import Task
from ..decoding.files import VERSION, in_threads, read
from ..decoding.pixels import Bytes, Crop, name_span
from ..decoding.readers import Bad, Memory, Reader, decoding_tasks, own_cores, shared_decoders
from .shard_index import CompactNames

FETCHERS = 16  # threads that fetch blocks of images from an object store
HASHED = 100_000  # images whose checksums are hashed at a time


@dataclass(frozen=True, eq=False)
class Shards:
    """A split in shards of a folder or an object store; images are resized to `size` (height, width)."""

    folder: Path | str
    shards: tuple[str, ...]
    shard: NDArray[np.int32]
    offset: NDArray[np.int64]
    length: NDArray[np.int32]
    sha256: NDArray[np.uint8]
    targets: Tensor
    names: CompactNames
    size: tuple[int, int]
    crop: Crop = "stretch"

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def shape(self) -> tuple[int, ...]:
        return (3, *self.size)

    @property
    def dtype(self) -> torch.dtype:
        return torch.uint8

    def take(self, index: Tensor) -> Tensor:
        """Decode the images of some samples."""
        with self.spans(index.tolist()) as spans:
            images = np.empty((len(spans.names), *self.shape), np.uint8)
            pixels = in_threads(self._read, spans.names)
        for place, image in zip(images, pixels, strict=True):
            place[:] = image
        return torch.from_numpy(images)

    def _read(self, span: str) -> Bytes:
        return read(span, self.size, self.crop)

    def reader(self, workers: int) -> Reader:
        """Return a reader that fills memory with images in the background."""
        if isinstance(self.folder, str):
            return FromObjectStore(self, workers)
        return FromShards(self, workers)

    def file_of(self, place: int) -> str:
        """Return the span of a local shard that holds an image, as a name for `pixels.read`."""
        path = os.path.abspath(join_address(self.folder, self.shards[self.shard[place]]))
        return name_span(path, int(self.offset[place]), int(self.length[place]))

    def spans(self, places: Sequence[int]) -> Spans:
        """Return spans from which images can be read on this machine until the spans are closed."""
        if isinstance(self.folder, str):
            return Spans.fetch(self, places)
        return Spans([self.file_of(place) for place in places])

    @cached_property
    def digest(self) -> str:
        """Return the hash that the same images would have in files (`Files.digest`)."""
        sha = hashlib.sha256(f"files {VERSION} {self.size} {self.crop} ".encode())
        for start in range(0, len(self), HASHED):
            some = [bytes(each).hex() for each in self.sha256[start : start + HASHED]]
            sha.update((" " * (start > 0) + " ".join(some)).encode())
        sha.update(self.targets.numpy().tobytes())
        return sha.hexdigest()[:32]


class Spans:
    """Names of spans of local files. Images of an object store are fetched into a file in memory."""

    def __init__(self, names: list[str], memory: Memory | None = None):
        self.names, self.memory = names, memory

    @staticmethod
    def fetch(shards: Shards, places: Sequence[int]) -> Spans:
        """Fetch images from an object store in one call."""
        assert isinstance(shards.folder, str)
        filesystem, prefix = _filesystem(shards.folder)
        starts = [int(shards.offset[place]) for place in places]
        lengths = [int(shards.length[place]) for place in places]
        with explain_failure(shards.folder):
            found = filesystem.cat_ranges(
                [f"{prefix}/{shards.shards[shards.shard[place]]}" for place in places],
                starts,
                [start + length for start, length in zip(starts, lengths, strict=True)],
            )
        content = b"".join(found)
        memory = Memory((max(1, len(content)),), torch.uint8, pinned=False)
        memory.slots[: len(content)] = torch.frombuffer(
            bytearray(content or b"0"), dtype=torch.uint8
        )[: len(content)]
        ends = np.cumsum([len(each) for each in found]).tolist()
        pairs = zip([0, *ends[:-1]], map(len, found), strict=True)
        return Spans([name_span(memory.path, *pair) for pair in pairs], memory)

    def __enter__(self) -> Spans:
        return self

    def __exit__(self, *error: object) -> None:
        if self.memory is not None:
            self.memory.close()


@cache
def _filesystem(address: str) -> tuple[Any, str]:
    return open_filesystem(address)


class FromShards:
    """A reader of images in local shards: decoding processes read the spans themselves."""

    def __init__(self, shards: Shards, workers: int = 0):
        self.shards = shards
        self.decoders = shared_decoders(workers or own_cores())

    def fill(self, memory: Memory, slot: int, index: Tensor) -> list[Future[Bad]]:
        tasks = decoding_tasks(self.shards, memory, slot, index, self.shards.file_of)
        return [self.decoders.submit(task) for task in tasks]


class FromObjectStore:
    """A reader of images in an object store: threads fetch them, processes decode them."""

    def __init__(self, shards: Shards, workers: int = 0):
        self.shards = shards
        self.decoders = shared_decoders(workers or own_cores())

    def fill(self, memory: Memory, slot: int, index: Tensor) -> list[Future[Bad]]:
        tasks = decoding_tasks(self.shards, memory, slot, index, str)
        return [_fetchers().submit(self._fetch_and_decode, task) for task in tasks]

    def _fetch_and_decode(self, task: Task) -> Bad:
        """Fetch and decode the images of a task, whose `files` are numbers of images."""
        places = [int(number) for number in task.files]
        with self.shards.spans(places) as spans:
            bad = self.decoders.submit(task.of(tuple(spans.names))).result()
        number = dict(zip(spans.names, places, strict=True))
        return {self.shards.names[number[span]]: reason for span, reason in bad.items()}


@cache
def _fetchers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(FETCHERS, thread_name_prefix="fetch")
