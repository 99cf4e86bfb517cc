"""The digits for the demo, which come with unspur: 10 000 for training and 2 000 for test."""

from __future__ import annotations

import hashlib
import lzma
from importlib import resources

import numpy as np
import torch
from torch import Tensor

from ...errors import DataError
from .mnist import Digits

FILE = "mnist12k.xz"
SHA256 = "10bd8c25e00a4595582596b0290cbaa18e2d04b0997ac9aca24d8eeea7e7c337"
CLASSES, SIDE = 10, 28
TRAIN_PER_CLASS, TEST_PER_CLASS = 1_000, 200  # the file holds them in this order, class by class


def digits() -> Digits:
    """Return the class-balanced part of MNIST that comes with the package."""
    packed = (resources.files("unspur.data") / "assets" / FILE).read_bytes()
    if (checksum := hashlib.sha256(packed).hexdigest()) != SHA256:
        raise DataError(
            f"the digits that come with unspur are damaged: {FILE} has sha256 {checksum}, not {SHA256}. "
            "Install unspur again."
        )
    pixels = np.frombuffer(lzma.decompress(packed), np.uint8).reshape(-1, SIDE, SIDE)
    train, test = np.split(pixels, [CLASSES * TRAIN_PER_CLASS])
    return Digits(
        torch.from_numpy(train.copy()),
        _labels(TRAIN_PER_CLASS),
        torch.from_numpy(test.copy()),
        _labels(TEST_PER_CLASS),
    )


def _labels(per_class: int) -> Tensor:
    return torch.arange(CLASSES).repeat_interleave(per_class)
