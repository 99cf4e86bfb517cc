"""Write files so that a killed process or a full disk leaves the old file or the new one, never a part."""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import StoreError
from .lease import leased

if TYPE_CHECKING:
    from torch import Tensor

# What a file system without locks answers.
WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL)
UNFINISHED = ".tmp"  # how names of files end until they are whole
LEFT_OVER = re.compile(r".\.[0-9a-f]{8}\.tmp$")


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None
) -> str:
    """Write a safetensors file, at once and whole; the checksum of its bytes."""
    import safetensors.torch

    plain = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    owned: dict[int, str] = {}
    for name, tensor in plain.items():  # safetensors refuses two names for one memory
        if owned.setdefault(tensor.untyped_storage().data_ptr(), name) != name and tensor.numel():
            plain[name] = tensor.clone()
    data = safetensors.torch.save(plain, metadata)
    write_bytes(path, data)
    return hashlib.sha256(data).hexdigest()


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file, in the order of their names."""
    import safetensors
    import safetensors.torch

    try:
        return dict(sorted(safetensors.torch.load(path.read_bytes()).items()))
    except (OSError, safetensors.SafetensorError) as error:
        raise StoreError(f"{path} cannot be read ({error}).") from None


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file beside its place, under a name of its own, sync it, and rename it into place."""
    beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}{UNFINISHED}")
    with disk_trouble(path):
        try:
            with open(beside, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        except BaseException:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise
        sync_folder(path.parent)


def sweep(folder: Path, name: str = "") -> None:
    """Remove what writers that died have left in a folder, or of one file; nobody may be writing it now."""
    for path in folder.glob(f"{glob.escape(name)}*{UNFINISHED}"):
        if LEFT_OVER.search(path.name):
            path.unlink(missing_ok=True)


def refuse_file(path: Path) -> None:
    """Raise if a folder cannot be made there because something on the way is a file."""
    there = next((each for each in (path, *path.parents) if each.exists()), path)
    if there.exists() and not there.is_dir():
        raise StoreError(f"{path} cannot be a folder: {there} is a file. Name another folder.")


def make_folder(path: Path) -> None:
    """Make the folder of a result."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot make the folder {path} ({error.strerror}). All that was trained is stored: give the "
            "same command with another folder."
        ) from None


def folder_size(path: Path) -> int:
    """Return the bytes in a folder."""
    return sum(f.stat().st_size for f in path.rglob("*") if f.is_file())


def file_checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_file(path: Path) -> None:
    """Make sure that what was appended to a file is on the disk; nothing to do if there is none."""
    if path.exists():
        with open(path, "rb") as file:
            os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    with contextlib.suppress(OSError):  # not every system lets a folder be opened
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def disk_trouble(path: Path) -> Iterator[None]:
    """Say what a failed write means for the user."""
    try:
        yield
    except OSError as error:
        full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        if error.errno not in (*full, errno.EROFS, errno.EACCES):
            raise
        advice = "name a folder that can be written (--out, --store)."
        if error.errno in full:
            advice = "free some space (`unspur runs list`, `unspur runs rm`) and give the same command again."
        raise StoreError(
            f"cannot write {path}: {error.strerror}. Finished stages and the last checkpoint are kept; "
            f"{advice}"
        ) from None


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Let only one process at a time change what is at a path; the others wait, or raise BlockingIOError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # a system without file locks: two runs at once may do the work twice
        yield
        return
    lock = path.with_suffix(".lock")
    while True:
        with open(lock, "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in WITHOUT_LOCKS:
                    raise
                with leased(lock.with_suffix(".lease"), wait=wait):
                    yield
                return
            if not still_there(
                lock, file.fileno()
            ):  # whoever had it removed it: wait for the new one
                continue
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
            return


def still_there(path: Path, opened: int) -> bool:
    """Return whether an open file is what is at a path now."""
    try:
        return os.path.samestat(path.stat(), os.fstat(opened))
    except FileNotFoundError:
        return False
