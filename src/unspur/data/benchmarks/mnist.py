"""Read MNIST from its four idx files, plain or gzipped, in a folder of the user."""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...errors import DataError
from ..splits import Splits, with_validation

TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
TEST_IMAGES, TEST_LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
FILES = (TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS)

TORCHVISION = Path("MNIST", "raw")  # where torchvision puts them below its root
UNSIGNED_BYTES = 0x0800  # the idx magic number is this plus the number of dimensions
GZIP_MAGIC = b"\x1f\x8b"


class Digits(NamedTuple):
    """Grey images (N, 28, 28) in uint8 with int64 labels, for training and test."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def find_root(data_root: Path | None = None) -> Path:
    """Return the data folder: `root`, otherwise UNSPUR_DATA, otherwise `data/` in the working directory."""
    named = os.environ.get("UNSPUR_DATA")
    if data_root is not None:
        root, source = Path(data_root), "data_root"
    elif named:
        root, source = Path(named), "UNSPUR_DATA"
    else:
        root, source = Path("data"), "the default"
    if not root.is_dir():
        raise DataError(
            f"there is no data folder {root} ({source}). Pass --data-root, set the environment "
            "variable UNSPUR_DATA, or put the data in data/ in the working directory."
        )
    return root


def mnist(root: Path) -> Digits:
    """Read all of MNIST from the idx files in `root` or in `root`/MNIST/raw."""
    train = _read_labelled(root, TRAIN_IMAGES, TRAIN_LABELS)
    return Digits(*train, *_read_labelled(root, TEST_IMAGES, TEST_LABELS))


def load_plain(root: Path, seed: int = 0) -> Splits:
    """Load MNIST without a shortcut, in three equal channels: 54,000 training, 6,000 validation images."""
    digits = mnist(root)
    return with_validation(
        _in_colour(digits.train_images),
        digits.train_labels,
        _in_colour(digits.test_images),
        digits.test_labels,
        classes=tuple("0123456789"),
        name="mnist",
        seed=seed,
    )


def _in_colour(grey: Tensor) -> Tensor:
    return grey[:, None].expand(-1, 3, -1, -1).contiguous()


def _read_labelled(root: Path, images_name: str, labels_name: str) -> tuple[Tensor, Tensor]:
    images = _parse(locate(root, images_name), dimensions=3)
    labels = _parse(locate(root, labels_name), dimensions=1)
    if len(images) != len(labels):
        raise DataError(
            f"{images_name} holds {len(images)} images but {labels_name} {len(labels)} labels. "
            "They are not from the same set; get both again."
        )
    return images, labels.long()


def locate(root: Path, name: str) -> Path:
    folders = (root, root / TORCHVISION)
    for folder in folders:
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
    raise DataError(
        f"MNIST is incomplete: neither {name} nor {name}.gz is in {folders[0]} or {folders[1]}. "
        f"Put the four files {', '.join(FILES)} there, plain or gzipped (.gz)."
    )


def _parse(path: Path, *, dimensions: int) -> Tensor:
    """Parse one idx file: a magic number, a size for each dimension, then the bytes."""
    content = _content(path)
    start = 4 * (1 + dimensions)
    if len(content) < start:
        raise DataError(
            f"{path} is truncated: {len(content)} bytes, less than its header. Get it again."
        )
    magic, *shape = struct.unpack(f">{1 + dimensions}I", content[:start])
    if magic != UNSIGNED_BYTES + dimensions:
        raise DataError(
            f"{path} is not an idx file of {dimensions}-dimensional bytes: it begins with "
            f"{magic:#010x}, not {UNSIGNED_BYTES + dimensions:#010x}. Get it again."
        )
    if len(content) - start != math.prod(shape):
        raise DataError(
            f"{path} is truncated or damaged: its header promises {math.prod(shape)} bytes and "
            f"{len(content) - start} follow. Get it again."
        )
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy())


def _content(path: Path) -> bytes:
    """Return the bytes of a file, decompressed if they are gzipped; the name of the file does not matter."""
    raw = path.read_bytes()
    if not raw.startswith(GZIP_MAGIC):
        return raw
    try:
        return gzip.decompress(raw)
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(f"{path} is a damaged gzip file ({error}). Get it again.") from error
