"""Readers, which fill memory with the pixels of given samples in the background.

Images in memory are gathered by threads. Images in files are decoded by processes, which all readers share,
which start when they are needed, and which end with the program.
"""

from __future__ import annotations

import atexit
import math
import mmap
import os
import queue
import secrets
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import IO, Protocol, runtime_checkable

import torch
from torch import Tensor

from ...errors import DataError
from ...parallel import processes_here
from ..splits import Part, Split
from .decoding_process import DecodingProcess, FatalImage, Task
from .files import Files
from .pixels import Crop

BLOCK = 16  # files per task of a process
THREADS = 4  # threads that gather images in memory


Bad = dict[str, str]  # the reason for each unreadable file


class Memory:
    """Memory for some images, which other processes can fill and a GPU can copy from."""

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, *, pinned: bool):
        count = max(1, torch.empty(0, dtype=dtype).element_size() * math.prod(shape))
        self._file = _shared_file(count)
        self._map = mmap.mmap(self._file.fileno(), count)
        self.name = secrets.token_hex(8)
        self.path = _path(self._file)
        self.slots = torch.frombuffer(self._map, dtype=dtype, count=math.prod(shape)).view(shape)
        self._pinned = pinned and _pin(self.slots)

    def offset(self, slot: int) -> int:
        """Return the position of a slot, in bytes."""
        return slot * self.slots[0].numel() * self.slots.element_size()

    def close(self) -> None:
        if self._pinned:
            torch.cuda.cudart().cudaHostUnregister(self.slots.data_ptr())  # type: ignore[no-untyped-call]
            self._pinned = False
        self._file.close()


class Reader(Protocol):
    """Fills memory with samples, starting at a slot; the result of the work lists unreadable files."""

    def fill(self, memory: Memory, slot: int, index: Tensor) -> list[Future[Bad]]: ...


@runtime_checkable
class OwnReader(Protocol):
    """Images that bring their own reader, such as those in shards."""

    def reader(self, workers: int) -> Reader: ...


class FromMemory:
    """Reads images in memory, or in a memory-mapped file."""

    def __init__(self, split: Split):
        self.split = split

    def fill(self, memory: Memory, slot: int, index: Tensor) -> list[Future[Bad]]:
        place = memory.slots[slot : slot + len(index)]
        return [_threads().submit(_gather, self.split.images, index, place)]


class FromFiles:
    """Reads images in files."""

    def __init__(self, files: Files, workers: int = 0):
        self.files = files
        # Absolute paths, because a process keeps the working directory it was started in.
        self.paths = [os.path.abspath(path) for path in files.paths]
        self.decoders = shared_decoders(workers or own_cores())

    def fill(self, memory: Memory, slot: int, index: Tensor) -> list[Future[Bad]]:
        tasks = decoding_tasks(self.files, memory, slot, index, lambda place: self.paths[place])
        return [self.decoders.submit(task) for task in tasks]


class InFiles(Protocol):
    """Images that are decoded from files: their size and crop."""

    @property
    def size(self) -> tuple[int, int]: ...
    @property
    def crop(self) -> Crop: ...


def decoding_tasks(
    images: InFiles, memory: Memory, slot: int, index: Tensor, file_of: Callable[[int], str]
) -> Iterator[Task]:
    """Yield the tasks that fill memory with samples; `file_of` returns the file or span of a sample."""
    positions, start = index.tolist(), memory.offset(slot)
    high, wide = images.size
    for first in range(0, len(positions), BLOCK):
        yield Task(
            memory=memory.name,
            path=memory.path,
            offset=start + first * 3 * high * wide,
            size=(high, wide),
            crop=images.crop,
            files=tuple(map(file_of, positions[first : first + BLOCK])),
        )


def reader(part: Part, workers: int = 0) -> Reader:
    """Return the reader of a split."""
    if isinstance(part, Files):
        return FromFiles(part, workers)
    if isinstance(part, Split):
        return FromMemory(part)
    if isinstance(part, OwnReader):
        return part.reader(workers)
    raise DataError(f"a {type(part).__name__} cannot be streamed; give a Split or Files.")


class Decoders:
    """A number of decoding processes, and as many threads that wait for their answers."""

    def __init__(self, count: int):
        self.threads = ThreadPoolExecutor(count, thread_name_prefix="decoder")
        self.idle: queue.SimpleQueue[DecodingProcess | None] = queue.SimpleQueue()
        for _ in range(count):
            self.idle.put(None)  # a process is started when it is first needed
        self.count = count

    def submit(self, task: Task) -> Future[Bad]:
        return self.threads.submit(self._do, task)

    def close(self) -> None:
        """End all processes that are idle."""
        self.threads.shutdown(cancel_futures=True)
        for _ in range(self.count):
            if (process := self.idle.get()) is not None:
                process.end()

    def _do(self, task: Task) -> Bad:
        """Decode the files of a task; a file that crashes the process does not affect the others."""
        bad: Bad = {}
        process, done = self.idle.get(), 0
        try:
            while done < len(task.files):
                process = process or DecodingProcess()
                try:
                    for reason in process.answers(task.after(done)):
                        bad |= {task.files[done]: reason} if reason else {}
                        done += 1
                except FatalImage as error:
                    bad[task.files[done]] = str(error)
                    done, process = done + 1, None
        except BaseException:
            process = None
            raise
        finally:
            self.idle.put(process)
        return bad


def available_cores() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def own_cores() -> int:
    """Return the number of processors for decoding: a share, if several processes train on this machine."""
    return max(1, available_cores() // processes_here())


@cache
def shared_decoders(count: int) -> Decoders:
    decoders = Decoders(count)
    atexit.register(decoders.close)
    return decoders


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="gather")


def _gather(images: Tensor, index: Tensor, place: Tensor) -> Bad:
    torch.index_select(images, 0, index, out=place)
    return {}


def _shared_file(count: int) -> IO[bytes]:
    """Open a file in memory, if the system supports it."""
    if hasattr(os, "memfd_create"):
        file: IO[bytes] = os.fdopen(os.memfd_create("unspur"), "r+b")
    else:
        file = tempfile.NamedTemporaryFile(prefix="unspur-")  # noqa: SIM115  (closed with the memory)
    file.truncate(count)
    return file


def _path(file: IO[bytes]) -> str:
    """Return the path by which other processes open the file."""
    if hasattr(os, "memfd_create"):
        return f"/proc/{os.getpid()}/fd/{file.fileno()}"
    return str(file.name)


def _pin(memory: Tensor) -> bool:
    """Pin memory, so that a GPU can copy from it asynchronously."""
    size = memory.numel() * memory.element_size()
    status = torch.cuda.cudart().cudaHostRegister(memory.data_ptr(), size, 0)  # type: ignore[no-untyped-call]
    return int(status) == 0
