"""Read any map-style dataset into memory as a split."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, cast

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from ...boundary import explain_faults
from ...errors import DataError
from ..decoding.pixels import colours
from ..splits import Split


def collect(dataset: Dataset[Any], *, name: str = "train") -> Split:
    """Read every (image, label) of a dataset once.

    An image is a PIL image or a tensor (C, H, W) in uint8 or floating point; a label is an integer. Random
    transforms are applied only once: use `data.augment` for augmentation.
    """
    try:
        count = len(cast(Sized, dataset))
    except TypeError:
        raise DataError(
            f"the {name} dataset ({type(dataset).__name__}) has no length; give a map-style dataset."
        ) from None
    if count == 0:
        raise DataError(f"the {name} dataset is empty.")
    images, targets = [], []
    for i in range(count):
        with explain_faults(f"{name}[{i}] cannot be read"):
            item = dataset[i]
            if not isinstance(item, tuple | list) or len(item) < 2:
                raise DataError(f"{name}[{i}] is {type(item).__name__}; it must be (image, label).")
            images.append(_image(item[0], f"{name}[{i}]"))
            targets.append(_label(item[1], f"{name}[{i}]"))
        if images[-1].shape != images[0].shape or images[-1].dtype != images[0].dtype:
            raise DataError(
                f"{name}[{i}] is {tuple(images[-1].shape)} in {images[-1].dtype}, {name}[0] "
                f"{tuple(images[0].shape)} in {images[0].dtype}. Resize all images to one shape."
            )
    return Split(torch.stack(images), torch.tensor(targets, dtype=torch.int64))


def dataset_classes(images: object) -> tuple[str, ...]:
    """Return the class names of a dataset (the attribute `classes` in torchvision); () if it has none."""
    names = getattr(images, "classes", None)
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        return ()
    return tuple(names) if len(set(names)) == len(names) else ()


def _image(image: Any, where: str) -> Tensor:
    if isinstance(image, Image.Image):
        return pixels(image)
    if isinstance(image, Tensor) and image.ndim == 3:
        if image.dtype == torch.uint8:
            return image
        if image.is_floating_point():
            if not bool(torch.isfinite(image).all()):
                raise DataError(f"{where}: the image has values that are not finite.")
            return image.float()
    what = (
        f"{tuple(image.shape)} in {image.dtype}"
        if isinstance(image, Tensor)
        else type(image).__name__
    )
    raise DataError(f"{where}: the image is {what}; give a PIL image or a (C, H, W) tensor.")


def pixels(image: Image.Image) -> Tensor:
    """Return an image as uint8 (3, H, W)."""
    return torch.from_numpy(np.array(colours(image))).permute(2, 0, 1).contiguous()


def _label(label: Any, where: str) -> int:
    try:
        number = int(label)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise DataError(f"{where}: the label {label!r} is not a whole number.") from None
    if number != label or not 0 <= number < 2**63:
        raise DataError(f"{where}: the label {label!r} is not a whole number from 0.")
    return number
