"""A user's own images: an image folder, a table, or a set of the Hugging Face hub.

Every image is decoded once, before anything is trained. One that cannot be read is skipped and listed; more
than one in a hundred stop the run. Where all pixels fit into memory they are kept, otherwise the images are
streamed from their files.
"""

from __future__ import annotations

import os
import statistics
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from ...errors import DataError
from ..decoding import pixels
from ..decoding.files import Files
from ..decoding.pixels import Crop
from ..decoding.readers import FromFiles, Memory
from ..splits import Part, Split, Splits
from . import class_folders, hub, listing, table
from .listing import Listing, shown

MOST_BAD = 0.01  # share of images that may be unreadable
MEMORY_SHARE = 0.5  # of the free memory that decoded images may take
MEASURED = 200  # files whose size decides what all are resized to
CHUNK = 1024  # images looked at at once
LARGEST = 96


def load(
    where: Path | str,
    *,
    limit: int = LARGEST,
    size: tuple[int, int] | None = None,
    classes: tuple[str, ...] | None = None,
    crop: Crop = "stretch",
    workers: int = 0,
) -> Splits:
    """A user's images, resized to the size most of them have, at most `limit` pixels.

    For a model that exists, `size` (high, wide), `classes` and `crop` are those it was trained on.
    """
    if str(where).startswith(hub.PREFIX):
        return hub.load(str(where), limit=limit, size=size, classes=classes)
    path = Path(where)
    if path.suffix.lower() in table.SUFFIXES and not path.is_dir():
        found = table.listed(path)
    elif path.is_file():
        raise DataError(
            f"{shown(path)} is neither a folder of images nor a table ({', '.join(table.SUFFIXES)})."
        )
    else:
        found = class_folders.listed(path)
    if classes is None:
        listing.check(found)
    else:
        listing.check_known(found, classes)
    size = size or common_size([row.path for row in found.rows], limit)
    return opened(found, size, classes or found.classes(), crop=crop, workers=workers)


def opened(
    found: Listing,
    size: tuple[int, int],
    classes: tuple[str, ...],
    *,
    crop: Crop = "stretch",
    workers: int = 0,
) -> Splits:
    """The images of a listing, decoded, numbered by class."""
    number = {name: i for i, name in enumerate(classes)}
    parts: dict[str, Files] = {}
    for part in ("train", "valid", "test"):
        if rows := found.of(part):
            targets = torch.tensor([number[row.label] for row in rows])
            names = tuple(shown(row.path, found.root) for row in rows)
            parts[part] = Files(tuple(row.path for row in rows), targets, size, crop, names)
    held, skipped = _read(parts, found, workers)
    groups = {part: [row.group for row in found.of(part)] for part in parts}
    bias, biases = _biases(groups, {part: kept for part, (_, kept) in held.items()})
    _warn_of_copies({part: files for part, files in parts.items() if part in held}, skipped)
    return Splits(
        train=held["train"][0],
        valid=held["valid"][0] if "valid" in held else None,
        test=held["test"][0] if "test" in held else None,
        classes=classes,
        bias=bias,
        bias_classes=biases,
        conflict_when="rare",
        name=found.name,
        skipped={shown(path, found.root): reason for path, reason in skipped.items()},
    )


def common_size(paths: Sequence[Path], limit: int) -> tuple[int, int]:
    """What images are resized to, high and wide: their own size, the longer side at most `limit`.

    Images of several sizes become squares, stretched: cropping could cut off the very thing that
    distinguishes them.
    """
    sizes = list(_sizes(paths[:: max(1, len(paths) // MEASURED)]))
    if not sizes:
        return limit, limit
    if len(set(sizes)) == 1:
        high, wide = sizes[0]
        shrink = min(1.0, limit / max(high, wide))
        return max(1, round(high * shrink)), max(1, round(wide * shrink))
    side = min(limit, int(statistics.median(max(size) for size in sizes)))
    return side, side


def _sizes(paths: Sequence[Path]) -> Iterator[tuple[int, int]]:
    for path in paths:
        try:
            yield pixels.measure(path)
        except pixels.DAMAGES:
            continue  # told of when all are read


def _read(
    parts: Mapping[str, Files], found: Listing, workers: int
) -> tuple[dict[str, tuple[Part, Tensor]], dict[str, str]]:
    """Each split with its unreadable images left out and which were kept; what was wrong with those."""
    room = sum(len(files) * _bytes(files) for files in parts.values())
    keep_pixels = room <= MEMORY_SHARE * free_memory()
    looked = {part: _look(files, workers, keep=keep_pixels) for part, files in parts.items()}
    skipped = {path: why for _, bad in looked.values() for path, why in bad.items()}
    _judge(skipped, found)
    held: dict[str, tuple[Part, Tensor]] = {}
    for part, (images, bad) in looked.items():
        files = parts[part]
        good = torch.tensor([str(path) not in bad for path in files.paths])
        if good.any():
            held[part] = _without(files, images, good), good
    _check_left(found, held)
    return held, skipped


def _look(files: Files, workers: int, *, keep: bool) -> tuple[Tensor | None, dict[str, str]]:
    """Decode every file; the pixels where they are kept, and what is wrong with the bad ones."""
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
    given = dict(zip(reader.paths, map(str, files.paths), strict=True))
    return (memory.slots if keep else None), {given[path]: why for path, why in bad.items()}


def _without(files: Files, images: Tensor | None, good: Tensor) -> Part:
    """The good images of a split, in memory where they are known."""
    where = good.nonzero().squeeze(1).tolist()
    names = tuple((files.names or ())[i] for i in where)
    if images is not None:
        return Split(images if bool(good.all()) else images[good], files.targets[good], names)
    paths = tuple(files.paths[i] for i in where)
    return Files(paths, files.targets[good], files.size, files.crop, names)


def _judge(skipped: Mapping[str, str], found: Listing) -> None:
    """Stop where too many images cannot be read; tell of the others."""
    if not skipped:
        return
    told = [f"{shown(path, found.root)} ({why})" for path, why in skipped.items()]
    share = len(skipped) / len(found.rows)
    most = 10 if share > MOST_BAD else 50
    more = f" and {len(told) - most} more" if len(told) > most else ""
    text = f"{len(told)} of {len(found.rows)} images ({share:.1%}) of {found.name} cannot be read"
    listed = f"{'; '.join(told[:most])}{more}"
    if share > MOST_BAD:
        raise DataError(f"{text}, more than {MOST_BAD:.0%}: {listed}. Repair or remove them.")
    warnings.warn(f"{text} and are skipped: {listed}.", stacklevel=4)


def _check_left(found: Listing, held: Mapping[str, tuple[Part, Tensor]]) -> None:
    """Every class must still have an image to train on."""
    kept = held["train"][1].tolist() if "train" in held else []
    labels = [row.label for row in found.of("train")]
    left = {label for label, good in zip(labels, kept, strict=False) if good}
    for label in labels:
        if label not in left:
            raise DataError(f"{found.name}: no image of {label!r} to train on can be read.")


def _biases(
    groups: Mapping[str, Sequence[str]], kept: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Groups as numbers, for the splits that tell them."""
    told = {part: names for part, names in groups.items() if part in kept and all(names)}
    biases = listing.in_order({name for names in told.values() for name in names})
    number = {name: i for i, name in enumerate(biases)}
    bias = {
        part: torch.tensor([number[name] for name in names])[kept[part]]
        for part, names in told.items()
    }
    return bias, biases


def _warn_of_copies(parts: Mapping[str, Files], skipped: Mapping[str, str]) -> None:
    """Tell of files that are in two splits."""
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
                    f"{where[other][example]} is {where[one][example]}): what is measured on them is "
                    "too good. Remove them from one of the two.",
                    stacklevel=4,
                )


def _contents(files: Files, skipped: Mapping[str, str]) -> dict[str, str]:
    """The name of a readable file by the hash of its bytes."""
    paths = [path for path in files.paths if str(path) not in skipped]
    names = dict(zip(files.paths, files.names or (), strict=True))
    good = Files(tuple(paths), files.targets[: len(paths)], files.size)
    return {digest: names[path] for digest, path in zip(good.hashes, paths, strict=True)}


def _bytes(files: Files) -> int:
    return 3 * files.size[0] * files.size[1]


def free_memory() -> int:
    """Bytes of memory that are free on this machine, or a careful guess."""
    try:
        with open("/proc/meminfo", encoding="ascii") as facts:
            for line in facts:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (OSError, ValueError):
        return 4 * 2**30
