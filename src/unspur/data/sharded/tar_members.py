"""List the members of a tar file without extracting anything; special members are refused."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO, NamedTuple

from ...errors import DataError

BLOCK = 512
MOST_BYTES = 2**27  # largest image
MOST_HEADER = 2**16  # largest extended header in bytes
PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)
# Fields that an extended header may not set: they would change the place or the name of a member.
REFUSED = (b" path=", b" size=", b" linkpath=", b"GNU.sparse")


class Member(NamedTuple):
    """A file in a tar: its name and the position of its bytes."""

    name: str
    offset: int
    size: int


def list_members(file: IO[bytes], length: int, source: str) -> Iterator[Member]:
    """Yield the regular files of a tar of `length` bytes; errors name it as `source`."""
    position = 0
    while position + BLOCK <= length:
        file.seek(position)
        header = file.read(BLOCK)
        if header == bytes(BLOCK):
            return
        found = _parse(header, source)
        end = position + BLOCK + found.size
        if found.size < 0 or found.size > MOST_BYTES or end > length:
            raise _refusal(source, f"{found.name[:100]!r} claims to have {found.size} bytes")
        if found.type == tarfile.XHDTYPE:
            _check_extended(file.read(min(found.size, MOST_HEADER + 1)), source)
        elif found.type not in PLAIN:
            raise _refusal(
                source, f"{found.name[:100]!r} is a link, a folder or another special file"
            )
        else:
            _check_name(found.name, source)
            yield Member(found.name, position + BLOCK, found.size)
        position = end + -found.size % BLOCK
    if position < length:
        raise _refusal(source, "it ends within a header")


def _parse(header: bytes, source: str) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError) as error:
        raise _refusal(source, f"a header cannot be read ({error})") from None


def _check_extended(content: bytes, source: str) -> None:
    if len(content) > MOST_HEADER or any(key in b" " + content for key in REFUSED):
        raise _refusal(source, "an extended header changes the name or the size of a member")


def _check_name(name: str, source: str) -> None:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\0" in name or not name.isprintable():
        raise _refusal(source, f"the name {name[:100]!r} is not allowed in a shard")


def _refusal(source: str, reason: str) -> DataError:
    return DataError(
        f"{source} is not a shard that can be read: {reason}. Write it again with `unspur data pack`."
    )
