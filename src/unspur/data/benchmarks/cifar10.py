"""CIFAR-10 in its binary version: six files of labelled pixels.

The python version of the same set is pickled. It is never opened, because a pickle can run any code.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import DataError
from ..splits import Splits, with_validation

ARCHIVE, FOLDER = "cifar-10-binary.tar.gz", "cifar-10-batches-bin"
TRAIN_FILES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST_FILE, NAMES_FILE = "test_batch.bin", "batches.meta.txt"
FILES = (*TRAIN_FILES, TEST_FILE)
PYTHON_ARCHIVE, PYTHON_FOLDER = "cifar-10-python.tar.gz", "cifar-10-batches-py"
SUBFOLDERS = ("", "cifar10")  # of the data folder

CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
IMAGE = (3, 32, 32)
RECORD = 1 + 3 * 32 * 32  # bytes: a label, then the planes of red, green and blue
RECORDS = 10_000  # in each file


class Cifar(NamedTuple):
    """Training and test images (N, 3, 32, 32) in uint8, with int64 labels."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def read(root: Path, *, records: int = RECORDS) -> Cifar:
    """Read all of CIFAR-10 from a folder with the binary files or their archive, or from the archive."""
    source = find(root)
    contents = dict(_read_archive(source, records) if source.is_file() else _read_folder(source))
    for name in FILES:
        if name not in contents:
            raise DataError(
                f"CIFAR-10 is incomplete: {name} is not in {source}. Get {ARCHIVE} again and put its "
                f"folder {FOLDER} into {root}."
            )
    _check_names(contents.get(NAMES_FILE), source)
    parts = [_parse(contents[name], f"{source / name}", records) for name in FILES]
    images, labels = zip(*parts, strict=True)
    pixels = [np.concatenate(images[:-1]), images[-1].copy()]
    train, test = (torch.from_numpy(part) for part in pixels)
    return Cifar(train, torch.cat(labels[:-1]), test, labels[-1])


def load_plain(root: Path, seed: int = 0, *, records: int = RECORDS) -> Splits:
    """Load CIFAR-10 without a bias: 45,000 images for training, 5,000 for validation, 10,000 for the test."""
    return with_validation(*read(root, records=records), classes=CLASSES, name="cifar10", seed=seed)


def find(root: Path) -> Path:
    """Return the folder of the binary files, or their archive."""
    folders = [root / name for name in SUBFOLDERS]
    for folder in [path for parent in folders for path in (parent, parent / FOLDER)]:
        if any((folder / name).is_file() for name in FILES):
            return folder
    for archive in (root, *(folder / ARCHIVE for folder in folders)):
        if archive.is_file() and archive.name != PYTHON_ARCHIVE:
            return archive
    raise DataError(_missing(root, folders))


def _missing(root: Path, folders: list[Path]) -> str:
    home = root.parent if root.is_file() else root
    where = f"Put the binary version, {ARCHIVE} or its folder {FOLDER}, into {home}."
    for folder in (home, *folders):
        for name in (PYTHON_FOLDER, PYTHON_ARCHIVE, "data_batch_1"):
            if (folder / name).exists():
                return (
                    f"{folder / name} is CIFAR-10's python version. It is pickled, which could run any "
                    f"code, and is not opened. {where}"
                )
    return f"there is no CIFAR-10 in {root}: neither {FOLDER} nor {ARCHIVE}. {where}"


def _read_folder(folder: Path) -> Iterator[tuple[str, bytes]]:
    for name in (*FILES, NAMES_FILE):
        if (folder / name).is_file():
            yield name, (folder / name).read_bytes()


def _read_archive(archive: Path, records: int) -> Iterator[tuple[str, bytes]]:
    """Yield the files of the archive, from any folder in it. Nothing is written to disk."""
    try:
        with gzip.open(archive) as stream, tarfile.open(fileobj=stream) as members:
            for member in members:
                file = members.extractfile(member) if member.isreg() else None
                name = Path(member.name).name
                if file is not None and name in (*FILES, NAMES_FILE):
                    yield (
                        name,
                        file.read(records * RECORD + 1),
                    )  # one more byte shows that it is too long
            while stream.read(1 << 20):  # the checksum is at the end
                pass
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise DataError(f"{archive} is a damaged archive ({error}). Get it again.") from error


def _check_names(content: bytes | None, source: Path) -> None:
    """Raise DataError unless the class names, if present, are those of CIFAR-10 in the right order."""
    if content is not None and content.split() != [name.encode() for name in CLASSES]:
        raise DataError(
            f"{source / NAMES_FILE} does not name the ten classes {', '.join(CLASSES)}. This is another "
            f"set or a damaged file; get {ARCHIVE} again."
        )


def _parse(content: bytes, name: str, records: int) -> tuple[NDArray[np.uint8], Tensor]:
    """Return images (a view of the content) and labels of one file."""
    if len(content) != records * RECORD:
        raise DataError(
            f"{name} is {'truncated' if len(content) < records * RECORD else 'too long'}: {records} "
            f"records are {records * RECORD} bytes, not {len(content)}. Get {ARCHIVE} again."
        )
    table = np.frombuffer(content, np.uint8).reshape(records, RECORD)
    highest = int(table[:, 0].max())
    if highest >= len(CLASSES):
        raise DataError(
            f"{name} is damaged: it has a label {highest}, outside 0..{len(CLASSES) - 1}. "
            f"Get {ARCHIVE} again."
        )
    return table[:, 1:].reshape(records, *IMAGE), torch.from_numpy(table[:, 0].astype(np.int64))
