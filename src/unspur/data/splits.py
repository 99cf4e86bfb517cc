"""Labelled images in memory, and their bias labels, which are kept apart from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from ..errors import DataError
from ..parallel import open_once, process_count
from ..store.hashing import digest
from .decoding.pixels import Crop


class Part(Protocol):
    """Labelled images: in memory (`Split`), or decoded from files on demand (`Files`)."""

    @property
    def targets(self) -> Tensor: ...
    @property
    def names(self) -> Sequence[str] | None: ...
    @property
    def shape(self) -> tuple[int, ...]: ...  # of one image
    @property
    def dtype(self) -> torch.dtype: ...
    @property
    def digest(self) -> str: ...
    def __len__(self) -> int: ...
    def take(self, index: Tensor) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class Split:
    """Images (N, C, H, W), uint8 or float32, with one target each; `names` are paths if known."""

    images: Tensor
    targets: Tensor
    names: Sequence[str] | None = None
    _placed: dict[torch.device, tuple[Tensor, Tensor]] = field(
        default_factory=dict, init=False, repr=False
    )

    def __post_init__(self) -> None:
        if self.images.ndim != 4 or self.images.dtype not in (torch.uint8, torch.float32):
            raise DataError(
                f"images must be (N, C, H, W) in uint8 or float32, not {tuple(self.images.shape)} "
                f"in {self.images.dtype}. Stack them, and leave normalisation to the recipe."
            )
        if self.images.is_floating_point() and not bool(self.images.isfinite().all()):
            bad = (~self.images.flatten(1).isfinite().all(1)).nonzero().squeeze(1).tolist()
            raise DataError(
                f"{len(bad)} of {len(self.images)} images have pixels that are not finite numbers, "
                f"image {bad[0]} first."
            )
        if self.targets.shape != (len(self.images),) or self.targets.dtype != torch.int64:
            raise DataError(
                f"{len(self.images)} images need as many int64 targets, not "
                f"{tuple(self.targets.shape)} in {self.targets.dtype}."
            )

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.images.shape[1:])

    @property
    def dtype(self) -> torch.dtype:
        return self.images.dtype

    def take(self, index: Tensor) -> Tensor:
        """Return the images of some samples."""
        return self.images[index]

    def is_on(self, device: torch.device) -> bool:
        """Return whether the images are already on a device."""
        return device in self._placed or self.images.device == device

    def on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return images and targets on a device; they are moved there once."""
        if device not in self._placed:
            # Always the same memory layout, because the last bits of results depend on it.
            images = self.images.to(device).contiguous(memory_format=fast_layout(device))
            self._placed[device] = images, self.targets.to(device)
        return self._placed[device]

    @cached_property
    def digest(self) -> str:
        """Return a hash of pixels, targets and order."""
        head = f"{self.images.dtype} {tuple(self.images.shape)}"
        return digest(head, self.images, self.targets)


@dataclass(frozen=True, eq=False)
class Splits:
    """A data set: the images for training, and separately the bias label of every sample.

    `bias[split]` is only used for evaluation. A sample is conflicting if its bias label differs from its
    target. With `conflict_when="equal"` it is conflicting if they are equal (CelebA: blond is coded as 1 and
    so is male), with "rare" if its bias label is rarer in its class than in the whole training split.
    `skipped` gives the reason for each image that was left out, `crop` the crop of image files.
    """

    train: Part
    classes: tuple[str, ...]
    valid: Part | None = None
    test: Part | None = None
    bias: Mapping[str, Tensor] = field(default_factory=dict)
    bias_classes: tuple[str, ...] = ()
    conflict_when: Literal["different", "equal", "rare"] = "different"
    name: str = "data"
    skipped: Mapping[str, str] = field(default_factory=dict)
    crop: Crop = "stretch"

    def __post_init__(self) -> None:
        if len(self.train) == 0:
            raise DataError(f"{self.name}: the training split is empty.")
        self._remove_empty()
        self._check_bias()
        for name, split in self.parts().items():
            self._check_part(name, split)

    def _remove_empty(self) -> None:
        """Set empty splits to None and remove their bias labels."""
        for name in ("valid", "test"):
            split = getattr(self, name)
            if split is not None and len(split) == 0:
                object.__setattr__(self, name, None)
                known = {other: labels for other, labels in self.bias.items() if other != name}
                object.__setattr__(self, "bias", known)

    def _check_bias(self) -> None:
        """Raise DataError unless bias labels belong to a split and are integers from 0."""
        for name, labels in self.bias.items():
            if name not in ("train", "valid", "test"):
                raise DataError(
                    f"{self.name}: bias labels of {name!r}; splits: train, valid, test."
                )
            if labels.is_floating_point() or bool((labels < 0).any()):
                raise DataError(
                    f"{self.name}: the bias labels of the {name} split are not whole numbers from 0."
                )

    def _check_part(self, name: str, split: Part) -> None:
        """Raise DataError unless the labels, image shape and bias labels of a split fit the data set."""
        low, high = int(split.targets.min()), int(split.targets.max())
        if low < 0 or high >= len(self.classes):
            raise DataError(
                f"{self.name}: the {name} split has a label outside 0..{len(self.classes) - 1}: "
                f"{low if low < 0 else high}. Number the classes from 0, one name for each."
            )
        if split.shape != self.train.shape:
            raise DataError(
                f"{self.name}: {name} images are {split.shape}, training images "
                f"{self.train.shape}. Resize them to one shape."
            )
        if name in self.bias and self.bias[name].shape != split.targets.shape:
            raise DataError(
                f"{self.name}: {len(split)} {name} images but {len(self.bias[name])} bias labels."
            )

    def parts(self) -> dict[str, Part]:
        """Return the splits that exist, by name."""
        parts = {"train": self.train, "valid": self.valid, "test": self.test}
        return {name: split for name, split in parts.items() if split is not None}

    def conflicting(self, name: str) -> Tensor | None:
        """Return which samples of a split are conflicting, or None without bias labels."""
        if name not in self.bias:
            return None
        bias, targets = self.bias[name], self.parts()[name].targets
        if self.conflict_when == "rare":
            return None if self._rare is None else self._rare[targets, bias]
        different = bias != targets
        return different if self.conflict_when == "different" else ~different

    @cached_property
    def _rare(self) -> Tensor | None:
        """Return for each (class, bias) whether the bias is rarer in the class than in the training split."""
        if "train" not in self.bias:
            return None
        biases = 1 + max(int(labels.max()) for labels in self.bias.values())
        return rare_groups(self.train.targets, self.bias["train"], len(self.classes), biases)

    @cached_property
    def digest(self) -> str:
        """Return a hash of everything that training and selection may use: no bias labels, no test split."""
        seen = [self.train.digest, self.valid.digest if self.valid else "-"]
        return digest(" ".join([*seen, *self.classes]))

    @cached_property
    def truth_digest(self) -> str:
        """Return a hash of everything that only evaluation may use: the test split and the bias labels."""
        labels = [self.bias[name] for name in sorted(self.bias)]
        tested = self.test.digest if self.test else "-"
        return digest(" ".join([tested, self.conflict_when, *sorted(self.bias)]), *labels)


def rare_groups(targets: Tensor, bias: Tensor, classes: int, biases: int) -> Tensor:
    """Return for each (class, bias) whether the bias is rarer in the class than in all these samples."""
    counts = torch.bincount(targets * biases + bias, minlength=classes * biases).view(-1, biases)
    return counts * counts.sum() < counts.sum(0) * counts.sum(1, keepdim=True)


def open_splits(work: Callable[[], Splits]) -> Splits:
    """Open a data set; several processes on a machine open it once.

    They map the same memory, and the hashes for store keys are computed once.
    """
    return work() if process_count() == 1 else open_once(lambda: _hashed(work()))


def _hashed(splits: Splits) -> Splits:
    for part in splits.parts().values():
        _ = part.digest
    return splits


def describe(splits: Splits) -> str:
    """Describe a data set in a line: images of each split, classes, size."""
    _, high, wide = splits.train.shape
    parts = ", ".join(f"{len(part)} {name}" for name, part in splits.parts().items())
    return f"{splits.name}: {parts} images of {len(splits.classes)} classes, {wide} x {high} pixels"


def fast_layout(device: torch.device) -> torch.memory_format:
    """Return the memory layout of images that is fastest for convolutions on a device."""
    return torch.channels_last if device.type in ("cpu", "cuda") else torch.contiguous_format


def with_targets(part: Part, targets: Tensor) -> Part:
    """Return the same images with other labels."""
    if isinstance(part, Split):
        return Split(part.images, targets, part.names)
    return replace(part, targets=targets)  # type: ignore[type-var]


def with_validation(
    images: Tensor,
    labels: Tensor,
    test_images: Tensor,
    test_labels: Tensor,
    *,
    classes: tuple[str, ...],
    name: str,
    seed: int,
) -> Splits:
    """Return a data set without bias labels; a random tenth of the training images is for validation."""
    order = np.random.default_rng([seed, 0]).permutation(len(labels))
    valid = len(order) // 10
    training, held_out = (
        torch.from_numpy(np.sort(part)) for part in (order[valid:], order[:valid])
    )
    return Splits(
        train=Split(images[training], labels[training]),
        valid=Split(images[held_out], labels[held_out]),
        test=Split(test_images, test_labels),
        classes=classes,
        name=name,
    )
