"""Count the images of an evaluation that its run was trained on: their scores say little about new images."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..data.custom.labelled import LabelledImages
from ..data.custom.sources import list_source
from ..data.decoding.files import in_threads
from ..data.splits import Split
from ..errors import DataError, StoreError
from ..store import read_json
from ..store.atomic import file_checksum


def count_training_images(
    run: Path, run_source: str, scored: LabelledImages, scored_source: str = ""
) -> int:
    """Return how many of the scored images are training images of a run, as far as that can be seen.

    `run_source` is where the run found its images, `scored_source` where the scored images are; "" if they
    came from Python. Seen are the same source, the same files, copies of files with the same name, and the
    whole training split as a dataset. Other copies are not found.
    """
    if _is_training_split(run, scored):
        return len(scored.part)
    if not run_source or not scored_source:
        return 0
    if os.path.abspath(run_source) == os.path.abspath(scored_source):
        return len(scored.part) if scored.split in ("", "train") else 0
    # Some of the files may be unreadable, and are then not among the images.
    return min(len(_same_files(scored.files, _training_files(run_source))), len(scored.part))


def _is_training_split(run: Path, scored: LabelledImages) -> bool:
    """Return whether the pixels and labels are those of the training split."""
    if not isinstance(
        scored.part, Split
    ):  # the hash of a set that is not in memory reads all files
        return False
    with contextlib.suppress(StoreError, AttributeError):
        known: object = read_json(run / "run.json").get("data", {}).get("train")
        return known == scored.part.digest
    return False


def _training_files(source: str) -> list[Path]:
    """Return the training images in a folder or a table; none if they are no longer there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same warnings were shown when the run was made
        try:
            return [row.path for row in list_source(Path(source)).of("train")]
        except DataError:  # moved, or of a kind without files
            return []


def _same_files(files: Sequence[Path], others: Iterable[Path]) -> list[Path]:
    """Return the files that are among others, in the same place or as a copy with the same name."""
    names = {file.name for file in files}
    near = [other for other in others if other.name in names]
    places = {os.path.abspath(other) for other in near}
    known = {(other.name, _bytes(other)) for other in near}
    copies = [f for f in files if os.path.abspath(f) not in places and (f.name, _bytes(f)) in known]
    wanted = {(file.name, _bytes(file)) for file in copies}
    originals = [other for other in near if (other.name, _bytes(other)) in wanted]
    contents = set(in_threads(_content, originals))
    found = {
        f
        for f, content in zip(copies, in_threads(_content, copies), strict=True)
        if content in contents
    }
    return [file for file in files if os.path.abspath(file) in places or file in found]


def _bytes(path: Path) -> int:
    """Return the size of a file, or -1 if it cannot be read."""
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _content(path: Path) -> str:
    """Return the checksum of a file; a file that cannot be read equals only itself."""
    try:
        return file_checksum(path)
    except OSError:
        return str(path)
