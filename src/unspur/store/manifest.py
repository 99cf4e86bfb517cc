"""Seal the folder of a result: manifest.json has the size and the checksum of every file in it.

The manifest is written last and contains its own checksum. So flipped bits, truncated files, missing files,
files of another run and unfinished folders are all detected. Files that a person may edit (suspects.csv) are
listed separately and not checked.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from ..errors import StoreError
from ..version import VERSION
from .atomic import file_checksum, write_bytes
from .folder_lock import writer_of
from .strict_json import parse_json, read_regular

MANIFEST = "manifest.json"
FORMAT = 1
MOST_BYTES = 2**20
Kind = Literal["run", "ordinary", "debiased", "audit", "export"]
AGAIN = "Run its command again: stages that are stored are not trained again."
REPAIR: dict[str, str] = {
    "run": AGAIN.replace("its command", "the command of the run"),
    "ordinary": AGAIN.replace("its command", "the command of the run"),
    "debiased": AGAIN.replace("its command", "the command of the run"),
    "audit": AGAIN.replace("its command", "the command of the audit"),
    "export": "Export the run again.",
}


def seal_folder(
    folder: Path, kind: Kind, files: Iterable[str], *, editable: Iterable[str] = ()
) -> None:
    """Write the manifest of a folder. It covers those of the named files that exist."""
    about = {"format": FORMAT, "kind": kind, "unspur": VERSION, "complete": True}
    parts = {"files": _records(folder, files), "editable": _records(folder, editable)}
    write_bytes(folder / MANIFEST, _render({**about, **parts}))


def mark_unfinished(folder: Path, kind: Kind) -> None:
    """Mark a folder as incomplete until it is sealed.

    A folder with a manifest needs no mark: a mixture of old and new files does not match the old manifest.
    """
    if not (folder / MANIFEST).exists():
        about = {"format": FORMAT, "kind": kind, "unspur": VERSION, "complete": False}
        write_bytes(folder / MANIFEST, _render({**about, "files": {}, "editable": {}}))


def check_folder(folder: Path, record: str, *, optional: Iterable[str] = ()) -> bool:
    """Raise StoreError if a sealed file was changed, or is missing and not `optional`.

    If another process is writing the folder, the error says so. Returns False for a folder without a
    manifest, which older versions wrote. If such a folder contains the file `record`, which every result
    has, a warning is given too.
    """
    try:
        return _check(folder, record, frozenset(optional))
    except StoreError:
        if who := writer_of(folder):
            raise StoreError(
                f"{folder} is being written by {who}. Wait until that has ended."
            ) from None
        raise


def _check(folder: Path, record: str, optional: frozenset[str]) -> bool:
    manifest = _read(folder)
    if manifest is None:
        if (folder / record).exists():
            warnings.warn(_unsealed(folder), stacklevel=4)
        return False
    if not manifest["complete"]:
        raise StoreError(f"{folder} is incomplete. {REPAIR[manifest['kind']]}")
    for name, sealed in manifest["files"].items():
        _check_file(folder / name, sealed, manifest["kind"], optional=name in optional)
    return True


def folder_kind(folder: Path) -> Kind | None:
    """Return the kind of result in a folder, from its manifest; None if it has none."""
    manifest = _read(folder)
    kind: Kind | None = None if manifest is None else manifest["kind"]
    return kind


def persons_files(folder: Path) -> list[Path]:
    """Return what a person has added to a sealed folder, and the editable files that a person has changed."""
    manifest = _read(folder)
    if manifest is None:
        return []
    ours = {MANIFEST, *manifest["files"]}
    edited = manifest["editable"]
    return [
        path
        for path in sorted(folder.iterdir())
        if path.name not in ours
        and (path.name not in edited or file_checksum(path) != edited[path.name]["sha256"])
    ]


def damage(path: Path, why: str, kind: Kind) -> StoreError:
    """Return the error for a damaged file of a result, which says how to restore it."""
    return StoreError(f"{path} is damaged ({why}). {REPAIR[kind]}")


def _unsealed(folder: Path) -> str:
    return (
        f"{folder} has no {MANIFEST}, so damage cannot be detected: an older unspur wrote it, or the file "
        "was removed. Run the command that wrote the folder again to seal it."
    )


def _records(folder: Path, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    paths = [folder / name for name in sorted(names)]
    return {
        path.name: {"bytes": path.stat().st_size, "sha256": file_checksum(path)}
        for path in paths
        if path.is_file()
    }


def _check_file(path: Path, sealed: Mapping[str, Any], kind: Kind, *, optional: bool) -> None:
    if optional and not path.exists():
        return
    if not path.is_file():
        raise StoreError(f"{path} is missing. {REPAIR[kind]}")
    try:
        if (size := path.stat().st_size) != sealed["bytes"]:
            raise damage(path, f"it has {size} bytes, not {sealed['bytes']}", kind)
        if file_checksum(path) != sealed["sha256"]:
            raise damage(path, f"its checksum differs from the one in {MANIFEST}", kind)
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}). {REPAIR[kind]}") from None


def _read(folder: Path) -> dict[str, Any] | None:
    """Read a manifest; return None if there is none.

    A manifest counts as damaged if writing its content again would give other bytes.
    """
    path = folder / MANIFEST
    if not path.exists():
        return None
    data = read_regular(path, MOST_BYTES)
    try:
        content = parse_json(data, path)
        del content["sha256"]
        whole = _render(content) == data and _is_valid(content)
    except (StoreError, TypeError, KeyError, AttributeError):
        whole = False
    if whole:
        return dict(content)
    raise StoreError(
        f"{path} is damaged, or of another version of unspur. Run the command that wrote the folder again: "
        "stages that are stored are not trained again."
    )


def _is_valid(content: Mapping[str, Any]) -> bool:
    """Return whether a manifest has this format and names only files of its folder."""
    names = [*content["files"], *content["editable"]]
    plain = all(name == Path(name).name and name not in ("", "..") for name in names)
    known = content["format"] == FORMAT and content["kind"] in get_args(Kind)
    return plain and known and isinstance(content["complete"], bool)


def _render(content: Mapping[str, Any]) -> bytes:
    """Return the bytes of a manifest; the last line is the checksum of the others."""
    seal = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return (json.dumps({**content, "sha256": seal}, indent=1) + "\n").encode()
