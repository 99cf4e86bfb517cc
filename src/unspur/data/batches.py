"""Sources of batches: images are augmented and turned into network input on the device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import torch
from torch import Tensor

from ..parallel import gather_batch, own_rows, own_share, process_count
from ..parallel.sharding import wants_whole_images
from ..parallel.team import Rows
from .augmentation import Augment, augment_images
from .mixing import Mixing
from .splits import Split, fast_layout

CHUNK = 1000  # images in one forward pass outside training
PIXELS = 5_000_000  # on a GPU, a pass takes more small images, up to this number of pixels
NO_MIXING = Mixing()


@dataclass(frozen=True)
class Batch:
    """The samples of one training step. `bias` is set only for methods that declare that they need it.

    If several processes share a step, `x` contains only the images of this process, unless the method mixes
    images. All other fields, and the outputs of a network, cover the whole batch.
    """

    x: Tensor
    y: Tensor
    index: Tensor
    conflict: Tensor
    step: Tensor
    bias: Tensor | None = None


@dataclass(frozen=True)
class Preprocess:
    """Conversion of stored pixels to network input: scale uint8 to [0, 1], then normalise each channel."""

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        # Create the tensors now: within a trace (torch.export) or inference mode they would not be ordinary.
        with torch.inference_mode(False):
            for values in (self.mean, self.std):
                _column(values, torch.device("cpu"))

    def __call__(self, images: Tensor) -> Tensor:
        x = images / 255 if images.dtype == torch.uint8 else images.float()
        if not self.mean:
            return x
        return (x - _column(self.mean, x.device)) / _column(self.std, x.device)


@cache  # a captured step (CUDA graph) must not copy from the host
def _column(values: tuple[float, ...], device: torch.device) -> Tensor:
    return torch.tensor(values, device=device).view(-1, 1, 1)


class Source(Protocol):
    """A source of batches.

    `feed` runs ahead of training and yields the inputs of each step: the indices of the samples, and their
    pixels unless these are on the device already. `batch` builds the batch from them within the step.
    `plain` yields the network input of all samples, or of those selected by the mask `among`, in order and
    without augmentation.
    """

    targets: Tensor

    def feed(self, order: Iterator[Tensor]) -> Iterator[tuple[Tensor, ...]]: ...
    def batch(self, index: Tensor, step: Tensor, pixels: Tensor | None = None) -> Batch: ...
    def plain(self, size: int = 0, *, among: Tensor | None = None) -> Iterator[Tensor]: ...


class Labelled:
    """Base class of sources: holds the labels on the device and turns pixels into a batch."""

    def __init__(
        self,
        targets: Tensor,
        *,
        preprocess: Preprocess,
        augment: Augment = "none",
        mixing: Mixing = NO_MIXING,
        seed: int = 0,
        conflict: Tensor | None = None,
        bias: Tensor | None = None,
    ):
        self.targets, device = targets, targets.device
        self.preprocess, self.augment, self.mixing, self.seed = preprocess, augment, mixing, seed
        none = torch.zeros(len(targets), dtype=torch.bool)
        self.conflict = (none if conflict is None else conflict).to(device)
        self.bias = None if bias is None else bias.to(device)

    def rows_to_read(self, count: int) -> Rows | None:
        """Return the rows of a batch of `count` samples that this process reads; None means all.

        If images of a batch are mixed, each process builds the whole batch.
        """
        return None if self._mixes() else own_rows(count)

    def _mixes(self) -> bool:
        return self.mixing != NO_MIXING or wants_whole_images()

    def labelled(
        self, pixels: Tensor, index: Tensor, step: Tensor, rows: Rows | None = None
    ) -> Batch:
        """Return the batch of the samples `index`, augmented for this step.

        `pixels` are the images of all these samples, or only of `rows`.
        """
        if rows is not None and self._mixes():
            pixels, rows = gather_batch(pixels, rows), None
        y, conflict = self.targets[index], self.conflict[index]
        images = augment_images(pixels, self.augment, seed=self.seed, step=step, rows=rows)
        x = self.preprocess(images)
        if rows is None:
            x = self.mixing(x, y, conflict, seed=self.seed, step=step)
        return Batch(
            x=x.contiguous(memory_format=fast_layout(images.device)),
            y=y,
            index=index,
            conflict=conflict,
            step=step,
            bias=None if self.bias is None else self.bias[index],
        )


class Resident(Labelled):
    """A source whose images are all on the device, so that a batch is one gather."""

    def __init__(
        self,
        split: Split,
        *,
        device: torch.device,
        preprocess: Preprocess,
        augment: Augment = "none",
        mixing: Mixing = NO_MIXING,
        seed: int = 0,
        conflict: Tensor | None = None,
        bias: Tensor | None = None,
    ):
        self.images, targets = split.on(device)
        super().__init__(
            targets,
            preprocess=preprocess,
            augment=augment,
            mixing=mixing,
            seed=seed,
            conflict=conflict,
            bias=bias,
        )

    def feed(self, order: Iterator[Tensor]) -> Iterator[tuple[Tensor, ...]]:
        return ((index,) for index in order)

    def batch(self, index: Tensor, step: Tensor, pixels: Tensor | None = None) -> Batch:
        """Return the samples `index`, augmented for this step."""
        return self.labelled(
            self._pixels(index) if pixels is None else pixels,
            index,
            step,
            self.rows_to_read(len(index)),
        )

    def _pixels(self, index: Tensor) -> Tensor:
        rows = self.rows_to_read(len(index))
        return gather_pixels(self.images, index if rows is None else index[rows.slice])

    def plain(self, size: int = 0, *, among: Tensor | None = None) -> Iterator[Tensor]:
        size = size or _images_per_pass(self.images)
        if among is None and process_count() == 1:
            for images in torch.split(self.images, size):
                x = self.preprocess(images)
                yield x.clone() if x is images else x  # a network may change its input in place
            return
        among = torch.ones(len(self.images), dtype=torch.bool) if among is None else among
        where = own_share(among.nonzero().squeeze(1)).to(self.images.device)
        for index in torch.split(where, size):
            yield self.preprocess(self.images[index])


def _images_per_pass(images: Tensor) -> int:
    """Return the number of images in one pass: more if they are small, to launch fewer kernels on a GPU."""
    count = PIXELS // (images.shape[-1] * images.shape[-2]) if images.is_cuda else 0
    return max(CHUNK, count)


def gather_pixels(images: Tensor, index: Tensor) -> Tensor:
    """Return the images at `index`, in the same memory layout as `images`."""
    if images.is_contiguous():
        return images[index]
    return images.permute(0, 2, 3, 1)[index].permute(0, 3, 1, 2)  # channels last
