"""Read and write files in an object store by address, such as `s3://bucket/name`, with fsspec."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import StoreError, UnspurError, UsageError
from ..extras import need

TABLES = (".json", ".md", ".csv", ".tex")  # the files of a table
ADDRESS = re.compile(r"[a-z][a-z0-9+.]*://")


def is_address(where: Path | str) -> bool:
    """Return whether a text is an address in an object store rather than a local path."""
    return isinstance(where, str) and ADDRESS.match(where) is not None


def open_filesystem(address: str) -> tuple[Any, str]:
    """Return the file system of an address, and the path of the address in it."""
    try:
        filesystem, path = need("fsspec.core", extra="cloud").url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise UsageError(
            f"{address} cannot be opened ({error}). Install the package for this kind of address: "
            "`pip install 'unspur[cloud]'` for s3://, `pip install gcsfs` for gs://."
        ) from None
    if hasattr(
        filesystem, "auto_mkdir"
    ):  # a local one, which has folders: make them as object stores do
        filesystem.auto_mkdir = True
    return filesystem, str(path).rstrip("/")


@contextmanager
def explain_failure(address: str) -> Iterator[None]:
    """Turn an error of an object store into a StoreError."""
    try:
        yield
    except UnspurError:
        raise
    except (
        Exception
    ) as error:  # not only OSError: each store has its own, such as missing credentials
        reason = str(error) or type(error).__name__
        raise StoreError(
            f"{address} cannot be reached ({reason[:200]}). Check the name, the network and your "
            "permissions. Finished work is kept."
        ) from None


def join_address(folder: Path | str, name: str) -> Path | str:
    """Return the path or address of a file in a folder."""
    return f"{folder.rstrip('/')}/{name}" if isinstance(folder, str) else folder / name


def replace_suffix(where: Path | str, suffix: str) -> Path | str:
    """Return the path or address of another file of a table.

    Only the suffix of a table is replaced: in `ratio-0.5`, the `.5` is a part of the name.
    """
    text = str(where)
    stem = next((text.removesuffix(end) for end in TABLES if text.endswith(end)), text)
    return stem + suffix if isinstance(where, str) else Path(stem + suffix)


def write_address(address: str, content: bytes) -> None:
    """Write a file in an object store, which does so atomically."""
    filesystem, path = open_filesystem(address)
    with explain_failure(address):
        filesystem.pipe_file(path, content)


def read_address(address: str) -> bytes | None:
    """Return the content of a file in an object store, or None if it does not exist."""
    filesystem, path = open_filesystem(address)
    with explain_failure(address):
        try:
            return bytes(filesystem.cat_file(path))
        except FileNotFoundError:
            return None
