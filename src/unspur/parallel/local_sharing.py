"""Load large data once per machine: its tensors are in shared memory that all processes map."""

from __future__ import annotations

import io
import os
import pickle
import tempfile
from collections.abc import Callable
from typing import IO, Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from .agreement import attempt, broadcast, sendable
from .team import alone, current

T = TypeVar("T")
LEAST = 2**16  # bytes of the smallest tensor that is worth sharing


def open_once(work: Callable[[], T]) -> T:
    """Call `work` in one process per machine; return its result in all, with large tensors in shared memory.

    If `work` raises an error, it is raised in all processes.
    """
    team = current()
    if team is None:
        return work()
    outcome: Any = (None, None)
    files: list[IO[bytes]] = []
    if team.node_rank == 0:
        with alone():
            outcome = attempt(lambda: _dump(work(), files))
    data, error = broadcast(sendable(outcome), team.node)
    if error is not None:
        raise outcome[1] or error
    opened: T = _Unpickler(io.BytesIO(data)).load()
    dist.barrier(group=team.node)  # the files may be closed once all have mapped them
    for file in files:
        file.close()
    return opened


def _dump(value: object, files: list[IO[bytes]]) -> bytes:
    data = io.BytesIO()
    _Pickler(data, files).dump(value)
    return data.getvalue()


class _Pickler(pickle.Pickler):
    """Pickles objects, with large tensors in separate files in memory."""

    def __init__(self, data: io.BytesIO, files: list[IO[bytes]]):
        super().__init__(data)
        self.files = files

    def persistent_id(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or value.numel() * value.element_size() < LEAST:
            return None
        source = value.detach().contiguous(memory_format=_layout(value))
        self.files.append(_memory_file(source.numel() * source.element_size()))
        place = _path(self.files[-1]), source.dtype, tuple(source.shape), source.stride()
        _map_tensor(*place, shared=True).copy_(source)
        return place


class _Unpickler(pickle.Unpickler):
    """Reads objects back. Large tensors are mapped privately: a change is not seen by other processes."""

    def persistent_load(self, place: Any) -> Tensor:
        return _map_tensor(*place, shared=False)


def _map_tensor(
    path: str, dtype: torch.dtype, shape: tuple[int, ...], stride: tuple[int, ...], *, shared: bool
) -> Tensor:
    count = torch.Size(shape).numel()
    flat = torch.from_file(path, shared=shared, size=count, dtype=dtype)
    return flat.as_strided(shape, stride)


def _layout(value: Tensor) -> torch.memory_format:
    """Return the memory format that networks on a CPU use for images, so that they are not copied later."""
    return torch.channels_last if value.ndim == 4 else torch.contiguous_format


def _memory_file(count: int) -> IO[bytes]:
    """Open a file of `count` bytes, in memory if the system supports it."""
    if hasattr(os, "memfd_create"):
        file: IO[bytes] = os.fdopen(os.memfd_create("unspur"), "r+b")
    else:
        file = tempfile.NamedTemporaryFile(prefix="unspur-")  # noqa: SIM115  (closed when all have it)
    file.truncate(count)
    return file


def _path(file: IO[bytes]) -> str:
    """Return the path by which other processes open the file."""
    memory = hasattr(os, "memfd_create")
    return f"/proc/{os.getpid()}/fd/{file.fileno()}" if memory else str(file.name)
