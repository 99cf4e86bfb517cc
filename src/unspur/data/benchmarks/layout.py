"""The folder layout of the public benchmark data sets.

    <folder>/<ratio>/align/<class>/<id>_<target>_<bias>.png       target and bias agree
    <folder>/<ratio>/conflict/<class>/<id>_<target>_<bias>.png    they differ
    <folder>/<ratio>/valid/<id>_<target>_<bias>.png
    <folder>/test/<class>/<id>_<target>_<bias>.png                shared by all ratios

When reading, `conlict` (a common misspelling), PNG and JPEG are accepted. `valid` and `test` may have class
folders or not, and may be inside the folder of the ratio or beside it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from ...errors import DataError
from ..decoding.pixels import UnreadableImage, open_image
from ..splits import Part, Split, Splits

SUFFIXES = frozenset({".png", ".jpg", ".jpeg"})
CONFLICT_FOLDERS = ("conflict", "conlict")
BLOCK = (
    64  # images a thread decodes at a time: single images would be slower than no threads at all
)


class Entry(NamedTuple):
    """An image file and the two labels in its name."""

    path: Path
    target: int
    bias: int


def read(
    folder: Path,
    ratio: str,
    *,
    classes: Sequence[str] = (),
    bias_classes: Sequence[str] = (),
) -> Splits:
    """Read a released set in the order of its sorted paths; classes without names are named by number."""
    entries = {
        "train": _train_entries(folder, ratio),
        "valid": _shared_entries(folder, ratio, "valid"),
        "test": _shared_entries(folder, ratio, "test"),
    }
    all_entries = [entry for part in entries.values() for entry in part]
    if not entries["train"]:
        raise DataError(
            f"{folder / ratio} holds no training image (.png or .jpg) in align/<class>/."
        )
    classes = _class_names(classes, "target", [(entry.target, entry.path) for entry in all_entries])
    bias_classes = _class_names(
        bias_classes, "bias", [(entry.bias, entry.path) for entry in all_entries]
    )
    splits = {name: _load(part, folder) for name, part in entries.items() if part}
    return Splits(
        train=splits["train"],
        valid=splits.get("valid"),
        test=splits.get("test"),
        classes=classes,
        bias={name: torch.tensor([entry.bias for entry in entries[name]]) for name in splits},
        bias_classes=bias_classes,
        name=f"{folder.resolve().name}/{ratio}",
    )


def write(splits: Splits, folder: Path, ratio: str, *, overwrite: bool = False) -> None:
    """Save a data set as PNG files; each folder appears only when all its files are written.

    An existing test split is kept if it is the same, as it is for all ratios of one seed.
    """
    _check_writable(splits)
    target, test = folder / ratio, folder / "test"
    if target.exists() and not overwrite:
        raise DataError(f"{target} exists already. Choose another folder, or ask to overwrite it.")
    # The test split is written first, so that the folder of a ratio exists only if the set is complete.
    parts = splits.parts()
    if "test" in parts and not _same_test(splits, test):
        if test.exists() and not overwrite:
            raise DataError(
                f"{test} holds another test split, which its other ratios share. Choose another "
                "folder, or ask to overwrite it."
            )
        with _staging_folder(test) as stage:
            _save(splits, "test", [stage / str(label) for label in parts["test"].targets.tolist()])
    with _staging_folder(target) as stage:
        _save(splits, "train", _train_folders(splits, stage))
        if "valid" in parts:
            _save(splits, "valid", [stage / "valid"] * len(parts["valid"]))


def _train_entries(folder: Path, ratio: str) -> list[Entry]:
    """Return the training files; raise DataError if one is in the wrong folder (align/ or conflict/)."""
    root = folder / ratio
    if not root.is_dir():
        present = ", ".join(sorted(path.name for path in folder.glob("*pct"))) or "none"
        raise DataError(f"there is no folder {root}. Ratios found in {folder}: {present}.")
    conflict = next((name for name in CONFLICT_FOLDERS if (root / name).is_dir()), None)
    if conflict is None or not (root / "align").is_dir():
        raise DataError(f"{root} needs the two folders align/ and conflict/, with training images.")
    aligned, conflicting = _entries(root / "align"), _entries(root / conflict)
    misplaced = [entry for entry in aligned if entry.target != entry.bias]
    misplaced += [entry for entry in conflicting if entry.target == entry.bias]
    for path, target, bias in misplaced:
        raise DataError(
            f"{path}: target {target} and bias {bias} belong in "
            f"{'align' if target == bias else 'conflict'}/. Move or rename the file."
        )
    return aligned + conflicting


def _shared_entries(folder: Path, ratio: str, name: str) -> list[Entry]:
    """Return the files of a split that is inside the folder of the ratio or beside it."""
    inside, beside = folder / ratio / name, folder / name
    return _entries(inside if inside.is_dir() else beside)


def _entries(folder: Path) -> list[Entry]:
    """Return the image files below a folder, flat or in class folders, sorted by path."""
    paths = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    visible = (path for path in paths if not path.name.startswith("."))
    ordered = sorted(visible, key=lambda path: path.relative_to(folder).as_posix())
    return [_entry(path, nested=path.parent != folder) for path in ordered]


def _entry(path: Path, *, nested: bool) -> Entry:
    fields = path.stem.split("_")
    if len(fields) < 3 or not all(field.isascii() and field.isdigit() for field in fields[-2:]):
        raise DataError(
            f"{path}: the name must be <id>_<target>_<bias>{path.suffix} with two class numbers. "
            "Rename the file, or move it elsewhere."
        )
    entry = Entry(path, int(fields[-2]), int(fields[-1]))
    if nested and path.parent.name != str(entry.target):
        raise DataError(
            f"{path}: the name says target {entry.target}, the folder {path.parent.name}. "
            "Move or rename the file."
        )
    return entry


def _class_names(
    names: Sequence[str], label: str, numbered: list[tuple[int, Path]]
) -> tuple[str, ...]:
    """Return the names of all classes, or their numbers if `names` is empty."""
    highest, path = max(numbered)
    if names and highest >= len(names):
        raise DataError(
            f"{path}: {label} {highest} is outside 0..{len(names) - 1} ({', '.join(names)}). "
            "Name every class, or rename the file."
        )
    return tuple(names) or tuple(str(number) for number in range(highest + 1))


def _load(entries: list[Entry], folder: Path) -> Split:
    return Split(
        _decode([entry.path for entry in entries]),
        torch.tensor([entry.target for entry in entries]),
        tuple(entry.path.relative_to(folder).as_posix() for entry in entries),
    )


def _decode(paths: list[Path]) -> Tensor:
    """Decode images of the same size in parallel, as (N, 3, H, W) in uint8."""
    first = _pixels(paths[0])
    images = np.empty((len(paths), *first.shape), np.uint8)

    def fill(start: int) -> None:
        for index, path in enumerate(paths[start : start + BLOCK], start):
            image = _pixels(path)
            if image.shape != first.shape:
                raise DataError(
                    f"{path} is {_size(image)} but {paths[0]} is {_size(first)} pixels wide and "
                    "high. Resize them to one size."
                )
            images[index] = image

    with ThreadPoolExecutor() as pool:
        for _ in pool.map(fill, range(0, len(paths), BLOCK)):  # raises the error of a block
            pass
    return torch.from_numpy(images)


def _pixels(path: Path) -> NDArray[np.uint8]:
    """Return an image as (3, H, W)."""
    try:
        with open_image(path) as image:
            return np.asarray(image.convert("RGB")).transpose(2, 0, 1)
    except UnreadableImage as error:
        raise DataError(f"{path} cannot be read as an image ({error}). Replace it.") from error


def _size(image: NDArray[np.uint8]) -> str:
    return f"{image.shape[2]}x{image.shape[1]}"


def _check_writable(splits: Splits) -> None:
    """Raise DataError unless reading the files would return the same set: RGB bytes with bias labels."""
    if splits.train.dtype != torch.uint8 or splits.train.shape[0] != 3:
        raise DataError(
            f"{splits.name}: only uint8 images with 3 channels can be saved as PNG, not "
            f"{splits.train.dtype} with {splits.train.shape[0]}."
        )
    if missing := splits.parts().keys() - splits.bias.keys():
        raise DataError(
            f"{splits.name}: no bias labels for {', '.join(sorted(missing))}. File names need them."
        )
    if splits.conflict_when != "different":
        raise DataError(
            f"{splits.name}: in this layout a sample is conflicting if target and bias differ, not if "
            f"they are {splits.conflict_when}. Recode the bias labels first."
        )


def _train_folders(splits: Splits, stage: Path) -> list[Path]:
    for name in ("align", "conflict"):  # create both, even if one stays empty
        (stage / name).mkdir()
    rows = zip(splits.train.targets.tolist(), splits.bias["train"].tolist(), strict=True)
    return [
        stage / ("align" if target == bias else "conflict") / str(target) for target, bias in rows
    ]


def _save(splits: Splits, part: str, folders: list[Path]) -> None:
    """Write every image of a split as PNG into its folder."""
    for folder in set(folders):
        folder.mkdir(parents=True, exist_ok=True)
    pixels = _all(splits.parts()[part]).permute(0, 2, 3, 1).contiguous().numpy()
    # One thread, because several threads are slower for files this small.
    for image, folder, name in zip(pixels, folders, _file_names(splits, part), strict=True):
        Image.fromarray(image).save(folder / name)


def _all(part: Part) -> Tensor:
    return part.take(torch.arange(len(part))).cpu()


def _file_names(splits: Splits, part: str) -> list[str]:
    labels = zip(splits.parts()[part].targets.tolist(), splits.bias[part].tolist(), strict=True)
    return [f"{index:05d}_{target}_{bias}.png" for index, (target, bias) in enumerate(labels)]


def _same_test(splits: Splits, folder: Path) -> bool:
    """Return whether the folder contains exactly the test split that would be written."""
    names = _file_names(splits, "test")
    files = {path.name: path for path in folder.rglob("*.png")}
    if sorted(files) != sorted(names):
        return False
    try:
        return torch.equal(_decode([files[name] for name in names]), _all(splits.parts()["test"]))
    except DataError:  # damaged images differ
        return False


@contextmanager
def _staging_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder beside the target; it replaces the target if no error occurs."""
    stage, old = (target.with_name(f".{target.name}.{word}") for word in ("partial", "old"))
    if old.exists() and not target.exists():
        old.rename(target)  # a process was killed between the two renames below
    for left_over in (stage, old):
        shutil.rmtree(left_over, ignore_errors=True)
    stage.mkdir(parents=True)
    try:
        yield stage
        if target.exists():
            target.rename(old)
        stage.rename(target)
    finally:
        if old.exists() and not target.exists():
            old.rename(target)
        for left_over in (stage, old):
            shutil.rmtree(left_over, ignore_errors=True)
