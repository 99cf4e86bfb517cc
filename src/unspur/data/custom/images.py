"""A user's own images: an image folder, a table, or a dataset of the Hugging Face hub.

Every image is decoded once, before training. Images that cannot be read are skipped and listed; if they are
more than 1 % of all images, an error is raised. If all pixels fit into memory they are kept there, otherwise
the images are streamed from their files.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ...errors import DataError
from ..decoding.files import Files
from ..decoding.pixels import Crop
from ..decoding.readers import FromFiles, Memory
from ..free_memory import free_memory
from ..sharded.shard_splits import find_shards, load_splits, measured_spans, open_shards
from ..splits import Part, Split, Splits
from . import hub
from .common_size import common_size
from .listing import Listing, check, check_counts, check_known, in_order, printable
from .sources import USUAL_GROUPS, GroupSource, check_groups, list_source

MOST_BAD = 0.01  # share of images that may be unreadable
MEMORY_SHARE = 0.5  # of the free memory that decoded images may occupy
CHUNK = 1024  # images decoded at a time
LARGEST = 96  # pixels of the longer side, by default
DARK = 32  # warn if no pixel of any image is brighter than this


def load(
    where: Path | str,
    *,
    limit: int = LARGEST,
    size: tuple[int, int] | None = None,
    classes: tuple[str, ...] | None = None,
    crop: Crop = "stretch",
    workers: int = 0,
    groups: GroupSource = USUAL_GROUPS,
) -> Splits:
    """Load a user's images from files, the Hugging Face hub or shards, and resize them to one size.

    `limit` is the largest side in pixels. For an existing model, pass the `size` (height, width), `classes`
    and `crop` that it was trained with. `groups` says where the groups are written; they are used only for
    evaluation.
    """
    if str(where).startswith(hub.PREFIX):
        column = hub.group_column(str(where), groups)
        return hub.load(str(where), limit=limit, size=size, classes=classes, group=column)
    if (shards := find_shards(where)) is not None:
        return _load_shards(shards, limit, size, classes, crop, groups)
    listing = list_source(Path(where), groups)
    if classes is None:
        check(listing)
    else:
        check_known(listing, classes)
    size = size or common_size([row.path for row in listing.rows], limit)
    return open_listing(listing, size, classes or listing.classes(), crop=crop, workers=workers)


def _load_shards(
    folder: Path | str,
    limit: int,
    size: tuple[int, int] | None,
    classes: tuple[str, ...] | None,
    crop: Crop,
    groups: GroupSource,
) -> Splits:
    """Open shards. Apart from a few images that are measured, images are decoded only when needed."""
    index = open_shards(folder)
    check_groups(str(folder), groups)
    if classes is None:
        train = index.arrays["label"][index.places("train")]
        counts = np.bincount(train, minlength=len(index.classes)).tolist()
        check_counts(str(folder), dict(zip(index.classes, counts, strict=True)))
    sample = measured_spans(folder, index)
    with sample.spans(range(len(sample))) as spans:
        size = size or common_size(spans.names, limit)
    return load_splits(folder, index, size, classes or index.classes, crop)


def open_listing(
    listing: Listing,
    size: tuple[int, int],
    classes: tuple[str, ...],
    *,
    crop: Crop = "stretch",
    workers: int = 0,
) -> Splits:
    """Decode the images of a listing and number their classes."""
    parts = dict(_files_of_parts(listing, size, classes, crop))
    readable_parts, skipped = _read(parts, listing, workers)
    _warn_of_dark(readable_parts["train"][0], listing.name)
    groups = {part: [row.group for row in listing.of(part)] for part in parts}
    bias, biases = _biases(
        groups, {part: readable for part, (_, readable) in readable_parts.items()}
    )
    _warn_of_copies(
        {part: files for part, files in parts.items() if part in readable_parts}, skipped
    )
    return Splits(
        train=readable_parts["train"][0],
        valid=readable_parts["valid"][0] if "valid" in readable_parts else None,
        test=readable_parts["test"][0] if "test" in readable_parts else None,
        classes=classes,
        bias=bias,
        bias_classes=biases,
        conflict_when="rare",
        name=listing.name,
        skipped={printable(path, listing.root): reason for path, reason in skipped.items()},
    )


def _files_of_parts(
    listing: Listing, size: tuple[int, int], classes: tuple[str, ...], crop: Crop
) -> Iterator[tuple[str, Files]]:
    """Yield the name and the files of each split that has images."""
    number = {name: i for i, name in enumerate(classes)}
    for part in ("train", "valid", "test"):
        if rows := listing.of(part):
            targets = torch.tensor([number[row.label] for row in rows])
            names = tuple(printable(row.path, listing.root) for row in rows)
            yield part, Files(tuple(row.path for row in rows), targets, size, crop, names)


def _read(
    parts: Mapping[str, Files], listing: Listing, workers: int
) -> tuple[dict[str, tuple[Part, Tensor]], dict[str, str]]:
    """Return the readable images and a mask of them for each split, and the reason for each skipped file."""
    room = sum(len(files) * _bytes(files) for files in parts.values())
    keep_pixels = room <= MEMORY_SHARE * free_memory()
    decoded = {part: decode_all(files, workers, keep=keep_pixels) for part, files in parts.items()}
    skipped = {path: why for _, bad in decoded.values() for path, why in bad.items()}
    report_unreadable(skipped, listing)
    readable_parts: dict[str, tuple[Part, Tensor]] = {}
    for part, (images, bad) in decoded.items():
        files = parts[part]
        good = torch.tensor([str(path) not in bad for path in files.paths])
        if good.any():
            readable_parts[part] = _readable_part(files, images, good), good
    _check_classes(listing, readable_parts)
    return readable_parts, skipped


def decode_all(files: Files, workers: int, *, keep: bool) -> tuple[Tensor | None, dict[str, str]]:
    """Decode every file; return the pixels if `keep`, and why each unreadable file cannot be read."""
    count = len(files)
    chunk = min(CHUNK, count)
    memory = Memory((count if keep else chunk, *files.shape), files.dtype, pinned=False)
    reader = FromFiles(files, workers)
    bad: dict[str, str] = {}
    try:
        for index in torch.split(torch.arange(count), chunk):
            for work in reader.fill(memory, int(index[0]) if keep else 0, index):
                bad |= work.result()
    finally:
        memory.close()
    # A file that is listed with two spellings of its path has one absolute path.
    named = zip(files.paths, reader.paths, strict=True)
    unreadable = {str(path): bad[whole] for path, whole in named if whole in bad}
    return (memory.slots if keep else None), unreadable


def _readable_part(files: Files, images: Tensor | None, good: Tensor) -> Part:
    """Return the readable images of a split: in memory if `images` holds their pixels, else in files."""
    where = good.nonzero().squeeze(1).tolist()
    names = tuple((files.names or ())[i] for i in where)
    if images is not None:
        return Split(images if bool(good.all()) else images[good], files.targets[good], names)
    paths = tuple(files.paths[i] for i in where)
    return Files(paths, files.targets[good], files.size, files.crop, names)


def report_unreadable(skipped: Mapping[str, str], listing: Listing) -> None:
    """Raise if too many images cannot be read; warn if a few cannot."""
    if not skipped:
        return
    problems = [f"{printable(path, listing.root)} ({why})" for path, why in skipped.items()]
    share = len(skipped) / len(listing.rows)
    most = 10 if share > MOST_BAD else 50
    more = f" and {len(problems) - most} more" if len(problems) > most else ""
    count = f"{len(problems)} of {len(listing.rows)} images ({100 * share:.1f} %)"
    text = f"{count} of {listing.name} cannot be read"
    examples = f"{'; '.join(problems[:most])}{more}"
    if share > MOST_BAD:
        raise DataError(
            f"{text}, more than {100 * MOST_BAD:.0f} %: {examples}. Repair or remove them."
        )
    warnings.warn(f"{text} and are skipped: {examples}.", stacklevel=4)


def _check_classes(listing: Listing, readable_parts: Mapping[str, tuple[Part, Tensor]]) -> None:
    """Raise if a class has no readable training image."""
    readable = readable_parts["train"][1].tolist() if "train" in readable_parts else []
    labels = [row.label for row in listing.of("train")]
    left = {label for label, good in zip(labels, readable, strict=False) if good}
    for label in labels:
        if label not in left:
            raise DataError(f"{listing.name}: no image of {label!r} to train on can be read.")


def _warn_of_dark(part: Part, name: str) -> None:
    """Warn if all images are nearly black, as 12-bit values in 16-bit files are."""
    brightest = int(part.images.max()) if isinstance(part, Split) else 255
    if brightest < DARK:
        warnings.warn(
            f"{name}: the brightest pixel of all images is {brightest} of 255. This is typical of 12-bit "
            "values in 16-bit files. Scale the values so that white is 65,535, and save the images again.",
            stacklevel=4,
        )


def _biases(
    groups: Mapping[str, Sequence[str]], readable: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Return the groups as numbers, for splits in which all images have one, and the names of the groups."""
    named = {part: names for part, names in groups.items() if part in readable and all(names)}
    biases = in_order({name for names in named.values() for name in names})
    number = {name: i for i, name in enumerate(biases)}
    bias = {
        part: torch.tensor([number[name] for name in names])[readable[part]]
        for part, names in named.items()
    }
    return bias, biases


def _warn_of_copies(parts: Mapping[str, Files], skipped: Mapping[str, str]) -> None:
    """Warn of files that are in more than one split."""
    if len(parts) < 2:
        return
    where = {part: _contents(files, skipped) for part, files in parts.items()}
    names = list(where)
    for number, one in enumerate(names):
        for other in names[number + 1 :]:
            if both := where[one].keys() & where[other].keys():
                example = min(both)
                warnings.warn(
                    f"{len(both)} images of the {other} split are in the {one} split too (for example "
                    f"{where[other][example]} is {where[one][example]}): scores on them will be "
                    "too high. Remove them from one of the two.",
                    stacklevel=4,
                )


def _contents(files: Files, skipped: Mapping[str, str]) -> dict[str, str]:
    """Return the name of each readable file by the hash of its bytes."""
    paths = [path for path in files.paths if str(path) not in skipped]
    names = dict(zip(files.paths, files.names or (), strict=True))
    good = Files(tuple(paths), files.targets[: len(paths)], files.size)
    return {digest: names[path] for digest, path in zip(good.hashes, paths, strict=True)}


def _bytes(files: Files) -> int:
    return 3 * files.size[0] * files.size[1]
