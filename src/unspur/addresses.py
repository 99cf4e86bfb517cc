"""Files at an address of an object store, as `s3://bucket/name`, read and written with fsspec."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import StoreError, UsageError
from .extras import need

ADDRESS = re.compile(r"[a-z][a-z0-9+.]*://")


def is_address(where: Path | str) -> bool:
    """Return whether a text is an address of an object store, not a path of this machine."""
    return isinstance(where, str) and ADDRESS.match(where) is not None


def open_filesystem(address: str) -> tuple[Any, str]:
    """Return the file system of an address, and the path of the address in it."""
    try:
        filesystem, path = need("fsspec.core", extra="cloud").url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise UsageError(
            f"{address} cannot be opened ({error}). Install the package that its kind needs, as in "
            "`pip install 'unspur[cloud]'` for s3:// or `pip install gcsfs` for gs://."
        ) from None
    if hasattr(
        filesystem, "auto_mkdir"
    ):  # a local one, which has folders: make them as object stores do
        filesystem.auto_mkdir = True
    return filesystem, str(path).rstrip("/")


@contextmanager
def explain_failure(address: str) -> Iterator[None]:
    """Turn the errors of an object store into ours."""
    try:
        yield
    except OSError as error:
        reason = str(error) or type(error).__name__
        raise StoreError(
            f"{address} cannot be reached ({reason[:200]}). Check the name, the network and your rights; "
            "what was finished is kept."
        ) from None


def join_address(folder: Path | str, name: str) -> Path | str:
    """Return the place of a file in a folder."""
    return f"{folder.rstrip('/')}/{name}" if isinstance(folder, str) else folder / name


def replace_suffix(where: Path | str, suffix: str) -> Path | str:
    """Return a place with another suffix, as `Path.with_suffix` does."""
    if isinstance(where, Path):
        return where.with_suffix(suffix)
    folder, _, name = where.rpartition("/")
    return f"{folder}/{Path(name).with_suffix(suffix).name}"


def write_address(address: str, content: bytes) -> None:
    """Write a file of an object store; such a file appears whole or not at all."""
    filesystem, path = open_filesystem(address)
    with explain_failure(address):
        filesystem.pipe_file(path, content)


def read_address(address: str) -> bytes | None:
    """Return the content of a file of an object store, or None if there is none."""
    filesystem, path = open_filesystem(address)
    with explain_failure(address):
        try:
            return bytes(filesystem.cat_file(path))
        except FileNotFoundError:
            return None
