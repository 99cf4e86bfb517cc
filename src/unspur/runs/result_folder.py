"""Claim the folder of a run or an audit: one process at a time, and one kind of result per folder."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..data.csv_text import escape_cell
from ..data.splits import Splits
from ..errors import StoreError
from ..parallel import from_first
from ..store import Kind, claim, folder_kind, make_folder, read_json, sweep, write_bytes

SKIPPED = "skipped.csv"
RECORDS: dict[str, Kind] = {"export.json": "export", "run.json": "run", "audit.json": "audit"}

# Files of a result that a user's folder may have, too. Tables that can be edited are renamed instead.
REPLACED: dict[Kind, tuple[str, ...]] = {
    "run": (
        *("manifest.json", "report.html", "model.safetensors", "masks.safetensors"),
        *("model.json", "scores.json", "recipe.toml"),
    ),
    "audit": ("manifest.json", "report.html", "pictures.safetensors"),
}
MODEL_KINDS: tuple[Kind, ...] = ("ordinary", "debiased")  # folders of models in that of a run
WORDS: dict[Kind, str] = {
    "run": "a run",
    "ordinary": "the ordinary model of a run",
    "debiased": "the debiased model of a run",
    "audit": "an audit",
    "export": "an export",
}


@contextlib.contextmanager
def write_alone(out: Path | None, kind: Kind) -> Iterator[None]:
    """Claim a folder before the work for it begins; does nothing if `out` is None.

    Raises StoreError if another process is writing it, or if it contains another kind of result. Temporary
    files of killed processes are removed.
    """
    if out is None:
        yield
        return
    make_folder(out)
    try:
        with claim(out):
            refuse_other(out, kind)
            sweep(out)
            yield
    finally:
        with contextlib.suppress(OSError):  # removes the folder only if it is empty
            out.rmdir()


@contextlib.contextmanager
def write_together(out: Path | None, kind: Kind, source: str = "") -> Iterator[None]:
    """Claim a folder for a team of processes, in which the first process writes.

    Raises StoreError if it is the folder `source` of the user's images.
    """
    if out is not None:
        refuse_source(out, source)
    with contextlib.ExitStack() as stack:
        from_first(lambda: stack.enter_context(write_alone(out, kind)))
        yield


def refuse_folder(out: Path, kind: Kind, source: str = "") -> None:
    """Raise StoreError if results cannot be written to a folder, before work that comes before the claim."""
    refuse_source(out, source)
    refuse_other(out, kind)


def refuse_source(out: Path, source: str) -> None:
    """Raise StoreError if results would be written among the images."""
    if source and Path(source).is_dir() and out.resolve() == Path(source).resolve():
        raise StoreError(
            f"{out} is the folder of the images. Choose another --out for the results."
        )


def refuse_other(out: Path, kind: Kind) -> None:
    """Raise StoreError if a folder contains a result of another kind, or files that are not from a result."""
    current = kind_of(out)
    if current is None:
        _refuse_foreign(out, kind)
    if current is not None and current != kind:
        raise StoreError(
            f"{out} contains {WORDS[current]}, whose files would be mixed with those of {WORDS[kind]}. "
            "Choose another --out."
        )
    if kind == "run":
        for part in MODEL_KINDS:
            _refuse_result_in(out / part, part)


def _refuse_foreign(out: Path, kind: Kind) -> None:
    """Raise StoreError if a result would replace a user's files, such as the weights it starts from."""
    if name := next((name for name in REPLACED.get(kind, ()) if (out / name).exists()), None):
        raise StoreError(
            f"{out / name} exists and is not from {WORDS[kind]}, which would replace it. Choose "
            "another --out."
        )


def _refuse_result_in(folder: Path, part: Kind) -> None:
    """Raise StoreError if the folder of another model of a run contains a result of its own."""
    current = kind_of(folder)
    if current in (None, part) or (current == "run" and _names_model(folder, part)):
        return
    raise StoreError(
        f"{folder} contains {WORDS[current]}, whose files would be replaced by {WORDS[part]} in "
        f"{folder.parent}. Choose another --out."
    )


def _names_model(folder: Path, part: Kind) -> bool:
    """Return whether run.json says that it is about that model; its manifest may be lost or damaged."""
    with contextlib.suppress(StoreError, AttributeError):
        return bool(read_json(folder / "run.json").get("model") == part)
    return False


def kind_of(folder: Path) -> Kind | None:
    """Return the kind of result in a folder, from its manifest or, if it is unreadable, from its files."""
    with contextlib.suppress(StoreError):
        if (kind := folder_kind(folder)) is not None:
            return kind
    return next((kind for name, kind in RECORDS.items() if (folder / name).exists()), None)


def remove_earlier(out: Path, names: Iterable[str]) -> None:
    """Remove files that an earlier run may have left in a folder."""
    for name in names:
        with contextlib.suppress(OSError):
            (out / name).unlink()


def save_skipped(splits: Splits, folder: Path) -> None:
    """Write the images that could not be read to skipped.csv; without any, remove that of an earlier run."""
    path = folder / SKIPPED
    if not splits.skipped:
        path.unlink(missing_ok=True)
        return
    text = io.StringIO()
    rows = [map(escape_cell, row) for row in splits.skipped.items()]
    csv.writer(text).writerows([("path", "reason"), *rows])
    write_bytes(path, text.getvalue().encode())
