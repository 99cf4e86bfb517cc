"""Write files atomically: a crash or a full disk leaves the old file or the new one, never a part."""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import StoreError
from .lease import leased

if TYPE_CHECKING:
    from torch import Tensor

# The errors of a file system that has no locks.
WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL)
UNFINISHED = ".tmp"  # suffix of a file until it is complete
LEFT_OVER = re.compile(r".\.[0-9a-f]{8}\.tmp$")


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None
) -> str:
    """Write a safetensors file atomically, and return the checksum of its bytes."""
    import safetensors.torch

    plain = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    owned: dict[int, str] = {}
    for name, tensor in plain.items():  # safetensors refuses tensors that share memory
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
    """Write a file atomically."""
    write_pieces(path, (data,))


def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file atomically: under a temporary name first, synced to disk and then renamed."""
    beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}{UNFINISHED}")
    with disk_trouble(path):
        try:
            with open(beside, "xb") as file:
                file.writelines(pieces)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        except BaseException:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise
        sync_folder(path.parent)


def sweep(folder: Path, name: str = "") -> None:
    """Remove temporary files that killed processes have left in a folder, or only those of the file `name`.

    No process may be writing these files now.
    """
    for path in folder.glob(f"{glob.escape(name)}*{UNFINISHED}"):
        if LEFT_OVER.search(path.name):
            path.unlink(missing_ok=True)


def refuse_file(path: Path) -> None:
    """Raise StoreError if `path`, or a folder above it, exists and is a file."""
    nearest = next((each for each in (path, *path.parents) if each.exists()), path)
    if nearest.exists() and not nearest.is_dir():
        raise StoreError(f"{path} cannot be a folder: {nearest} is a file. Name another folder.")


def make_folder(path: Path) -> None:
    """Create the folder of a result."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot create the folder {path} ({error.strerror}). All trained results are stored: run the "
            "same command with another folder."
        ) from None


def folder_size(path: Path) -> int:
    """Return the bytes in a folder. Files that a live run renames or removes meanwhile do not count."""
    size = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                size += os.stat(os.path.join(folder, name)).st_size
    return size


def file_checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_file(path: Path) -> None:
    """Flush a file to disk, if it exists."""
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
    """Turn an OSError of a full or read-only disk into a StoreError that says what to do."""
    try:
        yield
    except OSError as error:
        full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        if error.errno not in (*full, errno.EROFS, errno.EACCES):
            raise
        advice = "choose a folder that you can write to (--out, --store)."
        if error.errno in full:
            advice = "free some space (`unspur runs list`, `unspur runs rm`) and run the same command again."
        raise StoreError(
            f"cannot write {path}: {error.strerror}. Finished stages and the last checkpoint are kept; "
            f"{advice}"
        ) from None


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Lock a path, so that one process at a time changes it.

    If another process holds the lock, wait for it, or raise BlockingIOError if `wait` is False.
    """
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
            if not still_there(lock, file.fileno()):
                continue  # the process that held the lock has removed the file: open the new one
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
            return


def still_there(path: Path, opened: int) -> bool:
    """Return whether the file descriptor `opened` is still the file at this path."""
    try:
        return os.path.samestat(path.stat(), os.fstat(opened))
    except FileNotFoundError:
        return False
