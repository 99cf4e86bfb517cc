"""Seal the folder of a result: manifest.json has the size and the checksum of every file in it.

It is written last and has a checksum of its own, so that a flipped bit, a file that is cut short, missing or
of another run, and a folder that was never finished are all noticed. Files that a person may edit
(suspects.csv) are listed apart and not checked.
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
Kind = Literal["run", "ordinary", "audit", "export"]
AGAIN = "Give its command again: what is stored is not trained twice."
REPAIR: dict[str, str] = {
    "run": AGAIN.replace("its command", "the command of the run"),
    "ordinary": AGAIN.replace("its command", "the command of the run"),
    "audit": AGAIN.replace("its command", "the command of the audit"),
    "export": "Export the run again.",
}


def seal_folder(
    folder: Path, kind: Kind, files: Iterable[str], *, editable: Iterable[str] = ()
) -> None:
    """Write the manifest of a folder, over those of the named files that exist."""
    about = {"format": FORMAT, "kind": kind, "unspur": VERSION, "complete": True}
    parts = {"files": _records(folder, files), "editable": _records(folder, editable)}
    write_bytes(folder / MANIFEST, _render({**about, **parts}))


def mark_unfinished(folder: Path, kind: Kind) -> None:
    """Say in a folder without a manifest that its writing has begun; the seal ends that.

    A folder that has a manifest needs no mark: a mixture of old and new files does not fit the old one.
    """
    if not (folder / MANIFEST).exists():
        about = {"format": FORMAT, "kind": kind, "unspur": VERSION, "complete": False}
        write_bytes(folder / MANIFEST, _render({**about, "files": {}, "editable": {}}))


def check_folder(folder: Path, record: str, *, optional: Iterable[str] = ()) -> bool:
    """Raise StoreError if a sealed file was changed, or is missing and not `optional`.

    Where another process is writing the folder, the error says so. Returns False for a folder without a
    manifest, which older versions wrote; with a warning, if it has the file `record`, by which a result is
    known.
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
        raise StoreError(f"{folder} was not written to its end. {REPAIR[manifest['kind']]}")
    for name, sealed in manifest["files"].items():
        _check_file(folder / name, sealed, manifest["kind"], may_miss=name in optional)
    return True


def folder_kind(folder: Path) -> Kind | None:
    """Return what a folder holds, as its manifest says; None if it has none."""
    manifest = _read(folder)
    kind: Kind | None = None if manifest is None else manifest["kind"]
    return kind


def damage(path: Path, why: str, kind: Kind) -> StoreError:
    """Return the error for a damaged file of a result, with the way to get it back."""
    return StoreError(f"{path} is damaged ({why}). {REPAIR[kind]}")


def _unsealed(folder: Path) -> str:
    return (
        f"{folder} has no {MANIFEST}, so that damage cannot be noticed: an older unspur wrote it, or the "
        "file was removed. Give the command that made the folder again to seal it."
    )


def _records(folder: Path, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    paths = [folder / name for name in sorted(names)]
    return {
        path.name: {"bytes": path.stat().st_size, "sha256": file_checksum(path)}
        for path in paths
        if path.is_file()
    }


def _check_file(path: Path, sealed: Mapping[str, Any], kind: Kind, *, may_miss: bool) -> None:
    if may_miss and not path.exists():
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
    """Read a manifest; None if there is none. One that differs from what we would write is damaged."""
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
        f"{path} is damaged, or of another version of unspur. Give the command that made the folder again: "
        "what is stored is not trained twice."
    )


def _is_valid(content: Mapping[str, Any]) -> bool:
    """Return whether a manifest is of this format and names files of its own folder only."""
    names = [*content["files"], *content["editable"]]
    plain = all(name == Path(name).name and name not in ("", "..") for name in names)
    known = content["format"] == FORMAT and content["kind"] in get_args(Kind)
    return plain and known and isinstance(content["complete"], bool)


def _render(content: Mapping[str, Any]) -> bytes:
    """Return the bytes of a manifest; the last line is the checksum of the others."""
    seal = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return (json.dumps({**content, "sha256": seal}, indent=1) + "\n").encode()
