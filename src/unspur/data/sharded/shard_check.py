"""Check every image of shards: its bytes are those of the index, and it can be decoded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import torch

from ...errors import DataError
from ..decoding.files import in_threads
from ..decoding.pixels import _open_regular
from ..decoding.readers import Memory
from .shards import Shards

CHUNK = 1024  # images decoded at a time
SHOWN = 10  # bad images that an error names


def check_images(shards: Shards) -> None:
    """Raise DataError if an image was changed after the index was made, or cannot be decoded."""
    bad = list(_bad_images(shards))
    if bad:
        more = f" and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
        raise DataError(
            f"{len(bad)} of {len(shards)} images in {shards.folder} cannot be used: "
            f"{'; '.join(bad[:SHOWN])}{more}. Pack the images again with `unspur data pack`."
        )


def _bad_images(shards: Shards) -> Iterator[str]:
    """Yield the name of each bad image, and what is wrong with it."""
    memory, reader = Memory((CHUNK, *shards.shape), shards.dtype, pinned=False), shards.reader(0)
    try:
        for index in torch.split(torch.arange(len(shards)), CHUNK):
            places = index.tolist()
            with shards.spans(places) as spans:
                found = in_threads(_checksum, spans.names)
            changed = [
                p for p, sha in zip(places, found, strict=True) if sha != bytes(shards.sha256[p])
            ]
            yield from (f"{shards.names[p]} (it is not the image in the index)" for p in changed)
            # Local images are named by their place in the shard, those of an object store by their name.
            names = {shards.file_of(p): shards.names[p] for p in places}
            skip = {shards.names[p] for p in changed}
            for work in reader.fill(memory, 0, index):
                for file, reason in work.result().items():
                    if (name := names.get(file, file)) not in skip:
                        yield f"{name} ({reason})"
    finally:
        memory.close()


def _checksum(span: str) -> bytes:
    with _open_regular(span) as file:
        return hashlib.sha256(file.read()).digest()
