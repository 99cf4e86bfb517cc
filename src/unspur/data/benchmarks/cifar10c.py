"""Corrupted CIFAR-10: photographs whose type of corruption nearly always reveals the class.

The set is generated with the corruptions and counts of the public one, but with our own draw. The order in
which images are assigned to splits, the corruption of a conflicting image and its pixels depend only on the
seed. So with one seed the test split is the same for every ratio, and an image that is conflicting at a lower
ratio is also conflicting, with the same pixels, at a higher one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import DataError
from ...store.hashing import digest
from ..decoding.pixel_cache import cached_pixels
from ..decoding.pixels import Bytes
from ..splits import Split, Splits
from . import cifar10, frost, layout
from .cifar10 import CLASSES, IMAGE, Cifar
from .corruptions import CORRUPTIONS, SEVERITIES, corrupt

Labels = NDArray[np.int64]
Ratio = Literal["0.5pct", "1pct", "2pct", "5pct"]

# Published numbers of aligned and of conflicting training images; the rest of the 50 000 is for validation.
COUNTS: dict[str, tuple[int, int]] = {
    "0.5pct": (44_832, 228),
    "1pct": (44_527, 442),
    "2pct": (44_145, 887),
    "5pct": (42_820, 2_242),
}
TRAIN, TEST = 50_000, 10_000
BLOCK = 5_000  # images corrupted between two writes to a cached file
VERSION = 1  # of the generator; increase it whenever the pixels change

# Streams of random numbers. `carve` is the order in which images are assigned to splits.
STREAMS = {"carve": 0, "train": 1, "test": 2}


def load(
    root: Path, ratio: str, *, seed: int = 0, severity: int = 5, cache: Path | None = None
) -> Splits:
    """Load the public release if it is in the data folder `root`, otherwise generate the set.

    Frost uses the photographs in `root`/frost; without them it is procedural and named "procedural frost".
    """
    if (root / "cifar10c" / ratio).is_dir():
        return layout.read(
            root / "cifar10c", ratio, classes=CLASSES, bias_classes=tuple(CORRUPTIONS)
        )
    _check_ratio(ratio)
    textures = frost.find(root)
    return make(
        cifar10.read(root), ratio, seed=seed, severity=severity, textures=textures, cache=cache
    )


def make(
    images: Cifar,
    ratio: str,
    *,
    seed: int = 0,
    severity: int = 5,
    textures: Path | None = None,
    cache: Path | None = None,
) -> Splits:
    """Generate the benchmark for one ratio from all of CIFAR-10."""
    _check_ratio(ratio)
    sizes = len(images.train_labels), len(images.test_labels)
    if sizes != (TRAIN, TEST):
        raise DataError(
            f"CIFAR10-C {ratio} is made from {TRAIN} training and {TEST} test images, not {sizes[0]} "
            f"and {sizes[1]}. Give all of CIFAR-10, or use generate() for another size."
        )
    aligned, conflicting = COUNTS[ratio]
    return generate(
        images,
        aligned=aligned,
        conflicting=conflicting,
        seed=seed,
        severity=severity,
        textures=textures,
        cache=cache,
        name=f"cifar10c/{ratio}",
    )


def make_development(
    images: Cifar,
    ratio: str,
    *,
    seed: int = 0,
    textures: Path | None = None,
    cache: Path | None = None,
) -> Splits:
    """Generate a set for choosing settings: its test split is the last 10,000 training images.

    The test images of CIFAR-10 are not used, and the counts are four fifths of the published ones.
    """
    _check_ratio(ratio)
    aligned, conflicting = (round(0.8 * count) for count in COUNTS[ratio])
    train, test = slice(0, TRAIN - TEST), slice(TRAIN - TEST, TRAIN)
    pictures, labels = images.train_images, images.train_labels
    return generate(
        Cifar(pictures[train], labels[train], pictures[test], labels[test]),
        aligned=aligned,
        conflicting=conflicting,
        seed=seed,
        textures=textures,
        cache=cache,
        name=f"cifar10c-dev/{ratio}",
    )


def generate(
    images: Cifar,
    *,
    aligned: int,
    conflicting: int,
    seed: int = 0,
    severity: int = 5,
    textures: Path | None = None,
    cache: Path | None = None,
    name: str = "cifar10c",
) -> Splits:
    """Generate corrupted images with exact numbers of aligned and conflicting training images.

    The other training images are for validation, with the same share of conflicting ones, rounded half
    up. In each class of the test split all corruptions are equally frequent. `cache` is a folder to store
    the pixels in.
    """
    if severity not in SEVERITIES:
        raise DataError(f"{name}: there is no severity {severity}. Choose one of 1, 2, 3, 4, 5.")
    parts, kinds = _draw(images, aligned, conflicting, seed, name)
    frosts = frost.procedural() if textures is None else frost.photographs(textures)
    index = torch.cat(list(parts.values()))
    pixels = _corrupt_all(images, kinds, index, seed, severity, frosts, cache, name)
    splits = _split_pixels(pixels, torch.cat([images.train_labels, images.test_labels]), parts)
    return Splits(
        train=splits["train"],
        valid=splits["valid"],
        test=splits["test"],
        classes=CLASSES,
        bias={part: kinds[rows] for part, rows in parts.items()},
        bias_classes=_kinds(procedural=textures is None),
        name=name,
    )


def _split_pixels(pixels: Tensor, labels: Tensor, parts: dict[str, Tensor]) -> dict[str, Split]:
    """Divide the pixels, which are in the order of `parts`, into splits with labels."""
    chunks = torch.split(pixels, [len(rows) for rows in parts.values()])
    return {
        part: Split(chunk, labels[rows])
        for (part, rows), chunk in zip(parts.items(), chunks, strict=True)
    }


def _corrupt_all(
    images: Cifar,
    kinds: Tensor,
    index: Tensor,
    seed: int,
    severity: int,
    frosts: frost.Textures,
    cache: Path | None,
    name: str,
) -> Tensor:
    """Return the corrupted images `index`, from the cache if they are stored there."""
    originals = (images.train_images, images.test_images)

    def blocks() -> Iterator[Bytes]:
        pictures = torch.cat(originals)
        for rows in torch.split(index, BLOCK):
            yield corrupt(
                pictures[rows], kinds[rows], rows, seed=seed, severity=severity, textures=frosts
            ).numpy()

    facts = f"{VERSION} {seed} {severity}"
    about = digest(facts, *originals, kinds, index, *frosts) if cache else ""
    return cached_pixels(
        blocks, (len(index), *IMAGE), cache=cache, name=name.replace("/", "-"), about=about
    )


def _draw(
    images: Cifar, aligned: int, conflicting: int, seed: int, name: str
) -> tuple[dict[str, Tensor], Tensor]:
    """Return the image numbers of each split, and the corruption of every image.

    Test images are numbered after the training images.
    """
    total, train = len(images.train_labels), aligned + conflicting
    if not (0 <= conflicting <= train and 0 < train < total):
        raise DataError(
            f"{name}: cannot take {aligned} aligned and {conflicting} conflicting images to train on, "
            f"and at least one for validation, from {total}."
        )
    valid = total - train
    valid_conflicting = (2 * conflicting * valid + train) // (2 * train)
    # In one random order, training images come first and begin with the conflicting ones; validation images
    # come last and end with the conflicting ones.
    order = _rng(seed, "carve").permutation(total)
    changed = np.concatenate([order[:conflicting], order[total - valid_conflicting :]])
    kinds = _assign_corruptions(images.train_labels.numpy(), changed, _rng(seed, "train"))
    parts = {
        "train": np.sort(order[:train]),
        "valid": np.sort(order[train:]),
        "test": np.arange(total, total + len(images.test_labels)),
    }
    test = _assign_balanced(images.test_labels.numpy(), _rng(seed, "test"))
    return (
        {part: torch.from_numpy(rows) for part, rows in parts.items()},
        torch.from_numpy(np.concatenate([kinds, test])),
    )


def _kinds(*, procedural: bool) -> tuple[str, ...]:
    """Return the names of the corruptions; generated frost is called "procedural frost"."""
    names = {"frost": "procedural frost"} if procedural else {}
    return tuple(names.get(kind, kind) for kind in CORRUPTIONS)


def _assign_corruptions(labels: Labels, changed: Labels, rng: np.random.Generator) -> Labels:
    """Return the corruption of each label's class, or one of the nine others for the samples `changed`."""
    shift = rng.integers(1, len(CORRUPTIONS), size=len(labels))
    kinds = labels.copy()
    kinds[changed] = (labels[changed] + shift[changed]) % len(CORRUPTIONS)
    return kinds


def _assign_balanced(labels: Labels, rng: np.random.Generator) -> Labels:
    """Return corruptions that are equally frequent within each class, up to a difference of one image."""
    kinds = np.empty_like(labels)
    for label in range(len(CLASSES)):
        members = rng.permutation(np.flatnonzero(labels == label))
        kinds[members] = np.arange(len(members)) % len(CORRUPTIONS)
    return kinds


def _check_ratio(ratio: str) -> None:
    if ratio not in COUNTS:
        raise DataError(
            f"there is no CIFAR10-C ratio {ratio!r}. Choose one of {', '.join(COUNTS)}."
        )


def _rng(seed: int, purpose: str) -> np.random.Generator:
    return np.random.default_rng([seed, STREAMS[purpose]])
