"""Background and text: cues whose place differs from image to image, so that they have to be located.

Both need the extra `probe`. The background is located by GrabCut (Rother et al., 2004; OpenCV), a classical
segmentation that expects the object near the middle. Text is located by the detector of PP-OCR, a small
network that is part of the package rapidocr.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..extras import need
from .cues import as_floats, neutral, restore

EXTRA = "probe"
MARGIN = 1 / 10  # of each side; pixels outside this margin are always background
ROUNDS = 3  # iterations of GrabCut
SMALLEST, LARGEST = 32, 160  # pixels of the longer side that GrabCut works on
MOST_TEXT = 1 / 4  # of an image; text that covers more is the object, as in pictures of digits
TEXT_SIDE = 128  # smallest shorter side that the detector works on, in pixels

Pixels = NDArray[np.uint8]
Areas = dict[bytes, Tensor]


def installed() -> bool:
    """Return whether the packages that locate background and text are installed."""
    return all(importlib.util.find_spec(name) for name in ("cv2", "rapidocr", "onnxruntime"))


@dataclass(frozen=True)
class Background:
    """Everything except the object."""

    name: str = "background"
    title: str = "the background"
    known: Areas = field(default_factory=dict, compare=False, repr=False)

    def hide(self, images: Tensor) -> Tensor:
        return torch.where(find_areas(images, background, self.known), neutral(images), images)

    def exchange(self, images: Tensor, donors: Tensor) -> Tensor:
        """Put the object on the donor's background, whose mean colour replaces the donor's object."""
        own, other = (find_areas(each, background, self.known) for each in (images, donors))
        values = as_floats(donors)
        count = other.sum((2, 3), keepdim=True).clamp_min(1)
        mean = (values * other).sum((2, 3), keepdim=True) / count
        return torch.where(own, restore(torch.where(other, values, mean), images), images)


@dataclass(frozen=True)
class Text:
    """Text that appears in an image."""

    name: str = "text"
    title: str = "the text"
    known: Areas = field(default_factory=dict, compare=False, repr=False)

    def hide(self, images: Tensor) -> Tensor:
        """Replace the text by the mean colour of its image."""
        own = find_areas(images, text, self.known)
        mean = as_floats(images).mean((2, 3), keepdim=True)
        return torch.where(own, restore(mean, images), images)

    def exchange(self, images: Tensor, donors: Tensor) -> Tensor:
        """Hide the text of an image, then copy the text of the donor."""
        return torch.where(find_areas(donors, text, self.known), donors, self.hide(images))


def find_areas(images: Tensor, find: Callable[[Pixels], Pixels], known: Areas) -> Tensor:
    """Return a mask (N, 1, H, W) of the pixels that belong to a cue; each image is searched only once."""
    areas = []
    for image in images:
        key = image.numpy().tobytes()
        if key not in known:
            known[key] = torch.from_numpy(find(_pixels(image)).astype(bool))
        areas.append(known[key])
    return torch.stack(areas)[:, None]


def _pixels(image: Tensor) -> Pixels:
    """Return an image (C, H, W) as an array (H, W, 3)."""
    values = as_floats(image)
    if image.dtype != torch.uint8:
        values = (values - values.min()) / (values.max() - values.min()).clamp_min(1e-6)
    values = values if len(values) == 3 else values.mean(0, keepdim=True).expand(3, -1, -1)
    return np.ascontiguousarray((values * 255).round().byte().permute(1, 2, 0).numpy())


def background(image: Pixels) -> Pixels:
    """Return a mask (H, W) of the background."""
    cv2 = need("cv2", EXTRA)
    high, wide = image.shape[:2]
    scale = float(np.clip(max(high, wide), SMALLEST, LARGEST)) / max(high, wide)
    size = max(8, round(wide * scale)), max(8, round(high * scale))
    small = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    left, top = (max(1, round(MARGIN * side)) for side in size)
    inside = (left, top, size[0] - 2 * left, size[1] - 2 * top)
    mask = np.zeros(small.shape[:2], np.uint8)
    cv2.setRNGSeed(0)
    with_models = (np.zeros((1, 65)), np.zeros((1, 65)))
    cv2.grabCut(small, mask, inside, *with_models, ROUNDS, cv2.GC_INIT_WITH_RECT)
    is_background = np.isin(mask, (cv2.GC_BGD, cv2.GC_PR_BGD)).astype(np.uint8)
    found: Pixels = cv2.resize(is_background, (wide, high), interpolation=cv2.INTER_NEAREST)
    return found


def text(image: Pixels) -> Pixels:
    """Return a mask (H, W) of text."""
    cv2 = need("cv2", EXTRA)
    area: Pixels = np.zeros(image.shape[:2], np.uint8)
    boxes = _detector()(np.ascontiguousarray(image[..., ::-1])).boxes
    for box in [] if boxes is None else boxes:
        cv2.fillPoly(area, [np.round(box).astype(np.int32)], 1)
    return area if area.mean() <= MOST_TEXT else np.zeros_like(area)


@cache
def _detector() -> Any:
    """Return the text detector, loaded once."""
    need("onnxruntime", EXTRA)
    settings = {
        "Global.log_level": "critical",
        "Global.use_rec": False,
        "Global.use_cls": False,
        "Det.limit_side_len": TEXT_SIDE,
        "EngineConfig.onnxruntime.intra_op_num_threads": torch.get_num_threads(),
    }
    return need("rapidocr", EXTRA).RapidOCR(params=settings)
