"""Batches of images that are not on the device: they are read and copied there ahead of training."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from ..errors import DataError
from ..parallel import current, own_rows, own_share
from ..parallel.team import Rows, rows_of
from .augmentation import Augment
from .batches import CHUNK, NO_MIXING, Batch, Labelled, Preprocess
from .custom.listing import printable
from .decoding.pixels import describe_file
from .decoding.readers import Bad, Memory, Reader, reader
from .mixing import Mixing
from .splits import Part, Split

SHARE = 0.5  # of a device's free memory that images may occupy
AHEAD = 8  # batches that are read ahead of training


def fits_on(parts: Iterable[Part], device: torch.device) -> bool:
    """Return whether all images are in memory and fit into half of the free memory of a device."""
    splits = list(parts)
    if not all(isinstance(part, Split) for part in splits):
        return False
    if device.type != "cuda":
        return True  # they are there already
    missing = [part for part in splits if isinstance(part, Split) and not part.is_on(device)]
    needed = sum(part.images.numel() * part.images.element_size() for part in missing)
    return needed <= SHARE * torch.cuda.mem_get_info(device)[0]


class Streaming(Labelled):
    """A source that streams images from files or host memory, with the same batches as `Resident`.

    `workers` is the number of processes that decode files (0: one for each processor).
    """

    def __init__(
        self,
        split: Part,
        *,
        device: torch.device,
        preprocess: Preprocess,
        augment: Augment = "none",
        mixing: Mixing = NO_MIXING,
        seed: int = 0,
        conflict: Tensor | None = None,
        bias: Tensor | None = None,
        workers: int = 0,
    ):
        super().__init__(
            split.targets.to(device),
            preprocess=preprocess,
            augment=augment,
            mixing=mixing,
            seed=seed,
            conflict=conflict,
            bias=bias,
        )
        self.split, self.device = split, device
        self.reader: Reader = reader(split, workers)

    def feed(self, order: Iterator[Tensor]) -> Iterator[tuple[Tensor, ...]]:
        """Yield the indices of every batch, and the pixels of the rows that belong to this process."""
        return self._read(order, AHEAD, divided=True)

    def batch(self, index: Tensor, step: Tensor, pixels: Tensor | None = None) -> Batch:
        """Return the samples `index`, augmented for this step; without `pixels` they are read now."""
        rows = own_rows(len(index))
        if pixels is None:
            own = index if rows is None else index[rows.slice]
            pixels = self.split.take(own.cpu()).to(self.device)
        return self.labelled(pixels, index, step, rows)

    def plain(self, size: int = 0, *, among: Tensor | None = None) -> Iterator[Tensor]:
        where = torch.arange(len(self.split)) if among is None else among.cpu().nonzero().squeeze(1)
        for _, pixels in self._read(iter(torch.split(own_share(where), size or CHUNK)), 2):
            yield self.preprocess(pixels)

    def _read(
        self, order: Iterator[Tensor], ahead: int, *, divided: bool = False
    ) -> Iterator[tuple[Tensor, ...]]:
        """Yield the indices and pixels of every batch on the device, reading `ahead` batches in advance.

        With `divided`, only the pixels of the rows that belong to this process are read.
        """
        lane = _lane(self.device)
        if (first := lane.next(order)) is None or not len(first):
            return
        slots, size = ahead + 1, max(_rows(len(first)).counts) if divided else len(first)
        shape = (slots * size, *self.split.shape)
        memory = Memory(shape, self.split.dtype, pinned=self.device.type == "cuda")
        waiting: deque[_Reading] = deque()
        indices = chain([first], iter(lambda: lane.next(order), None))
        try:
            for number, index in enumerate(indices):
                slot = number % slots * size
                lane.free(slot)
                own = index[_rows(len(index)).slice] if divided else index
                work = self.reader.fill(memory, slot, own)
                waiting.append(_Reading(index, slot, len(own), work))
                if len(waiting) > ahead:
                    sent = lane.send(memory, waiting[0])
                    waiting.popleft()
                    yield sent
            while waiting:
                sent = lane.send(memory, waiting[0])
                waiting.popleft()
                yield sent
        finally:
            for reading in waiting:
                reading.stop()
            lane.finish()
            memory.close()


def _rows(total: int) -> Rows:
    """Return the rows of a batch that this process reads: all of them if it is the only process."""
    team = current()
    return rows_of(total, 0, 1) if team is None else team.rows(total)


@dataclass(frozen=True)
class _Reading:
    """A batch that is being read into memory, starting at `slot`."""

    index: Tensor
    slot: int
    count: int
    work: list[Future[Bad]]

    def pixels(self, memory: Memory) -> Tensor:
        """Wait for the images and return them; raise DataError if one cannot be read."""
        for part in self.work:
            for file, reason in part.result().items():
                raise DataError(
                    f"{printable(describe_file(file))} cannot be read as an image ({reason}). Replace it."
                )
        return memory.slots[self.slot : self.slot + self.count]

    def stop(self) -> None:
        """Cancel the reading, or wait until it ends, so that nothing writes to the slot any more."""
        for part in self.work:
            if not part.cancel():
                part.exception()


class _Lane:
    """Transfer of batches to the device. On a CPU this is a copy."""

    def next(self, order: Iterator[Tensor]) -> Tensor | None:
        """Return the indices of the next batch, on the CPU."""
        with self._stream():
            index = next(order, None)
            return None if index is None else index.cpu()

    def free(self, slot: int) -> None:
        """Wait until a slot can be reused."""

    def send(self, memory: Memory, reading: _Reading) -> tuple[Tensor, ...]:
        return reading.index, reading.pixels(memory).clone()

    def finish(self) -> None:
        """Wait until all transfers have ended."""

    def _stream(self) -> AbstractContextManager[object]:
        return nullcontext()


class _CudaLane(_Lane):
    """Transfer of batches on a separate CUDA stream, so that the GPU copies one while it trains on another.

    All CUDA calls are made from the training thread, because calls from another thread would break the
    capture of a CUDA graph.
    """

    def __init__(self, device: torch.device):
        self.device = device
        self.side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.side.wait_stream(torch.cuda.current_stream(device))
        self.copied: dict[int, torch.cuda.Event] = {}
        self.used: deque[torch.cuda.Event] = deque()

    def free(self, slot: int) -> None:
        if slot in self.copied:
            self.copied.pop(slot).synchronize()

    def send(self, memory: Memory, reading: _Reading) -> tuple[Tensor, ...]:
        pixels = reading.pixels(memory)
        self._keep_pace()
        with self._stream():
            sent = tuple(t.to(self.device, non_blocking=True) for t in (reading.index, pixels))
            self.copied[reading.slot] = self.side.record_event()
        current = torch.cuda.current_stream(self.device)
        current.wait_stream(self.side)
        for tensor in sent:
            tensor.record_stream(current)
        return sent

    def _keep_pace(self) -> None:
        """Limit how many batches the host is ahead of the device, because they all occupy device memory."""
        self.used.append(torch.cuda.current_stream(self.device).record_event())
        if len(self.used) > AHEAD:
            self.used.popleft().synchronize()

    def finish(self) -> None:
        self.side.synchronize()

    def _stream(self) -> AbstractContextManager[object]:
        return torch.cuda.stream(self.side)


def _lane(device: torch.device) -> _Lane:
    return _CudaLane(device) if device.type == "cuda" else _Lane()
