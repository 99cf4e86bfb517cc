"""Pack a user's images into shards. Every image is decoded once; unreadable images are left out."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch

from ...errors import DataError
from ..decoding.files import Files
from ..sharded.shard_index import PARTS, ShardIndex, write_index
from ..sharded.shard_scan import scan_shards
from ..sharded.shard_writer import PER_SHARD, read_listing, write_shards
from .images import decode_all, report_unreadable
from .listing import ListedImage, Listing, check
from .sources import USUAL_GROUPS, GroupSource, list_source

CHECKED = (8, 8)  # size that images are decoded to when they are only checked


def pack_images(
    where: Path | str,
    out: Path,
    *,
    groups: GroupSource = USUAL_GROUPS,
    per_shard: int = PER_SHARD,
    workers: int = 0,
) -> ShardIndex:
    """Write the images of a folder or a table as shards with an index; `out` must be new or empty."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"{out} is not empty. Name a new folder for the shards.")
    listing = list_source(Path(where), groups)
    check(listing)
    readable = listing._replace(rows=_readable_rows(listing, workers))
    out.mkdir(parents=True, exist_ok=True)
    try:
        for part in PARTS:
            write_shards(read_listing(readable.of(part), listing), out, part, per_shard=per_shard)
        return index_shards(out)
    except BaseException:
        shutil.rmtree(out)  # so that an existing folder is always complete
        raise


def index_shards(folder: Path) -> ShardIndex:
    """Make the index of existing shards and write it into their folder."""
    index = scan_shards(folder)
    write_index(index, folder)
    return index


def _readable_rows(listing: Listing, workers: int) -> list[ListedImage]:
    """Return the images that can be decoded."""
    paths = tuple(row.path for row in listing.rows)
    files = Files(paths, torch.zeros(len(paths), dtype=torch.int64), CHECKED)
    _, bad = decode_all(files, workers, keep=False)
    report_unreadable(bad, listing)
    return [row for row in listing.rows if str(row.path) not in bad]
