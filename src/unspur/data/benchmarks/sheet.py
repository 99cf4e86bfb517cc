"""A sheet of examples of a data set: aligned images above a dotted line, conflicting ones below."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor

from ...errors import DataError
from ..splits import Part, Splits

GAP, LINE = 2, 14  # pixels between images, and between the two halves
ROWS, LARGEST = 3, 10  # rows of a half, and columns at most
PAPER, INK = (255, 255, 255), (90, 90, 90)  # colours of the background and the line


def save(splits: Splits, path: Path, *, columns: int = LARGEST) -> None:
    """Write the sheet of training images as PNG."""
    image = render(splits, columns=columns)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path, "PNG")
    except OSError as error:
        raise DataError(f"cannot write {path} ({error.strerror}).") from None


def render(splits: Splits, *, columns: int = LARGEST, rows: int = ROWS) -> Image.Image:
    """Draw the sheet, with one column for each class, or several if there are few classes."""
    conflicting = splits.conflicting("train")
    if conflicting is None:
        raise DataError(
            f"{splits.name}: there are no bias labels, so it is not known which images are conflicting."
        )
    across = max(1, columns // len(splits.classes))
    halves = [
        _draw_half(splits.train, mask, len(splits.classes), rows, across)
        for mask in (~conflicting, conflicting)
    ]
    width, height = halves[0].size
    sheet = Image.new("RGB", (width, 2 * height + LINE), PAPER)
    sheet.paste(halves[0], (0, 0))
    sheet.paste(halves[1], (0, height + LINE))
    _draw_line(sheet, height + LINE // 2)
    return sheet


def _draw_half(part: Part, mask: Tensor, classes: int, rows: int, across: int) -> Image.Image:
    """Draw the first images of each class, among those selected by the mask; missing images stay empty."""
    _, height, width = part.shape
    cell_width, cell_height = width + GAP, height + GAP
    half = Image.new("RGB", (classes * across * cell_width + GAP, rows * cell_height + GAP), PAPER)
    for label in range(classes):
        members = (mask & (part.targets == label)).nonzero().squeeze(1)[: rows * across]
        for place, index in enumerate(members.tolist()):
            row, column = divmod(place, across)
            left = GAP + (label * across + column) * cell_width
            half.paste(_picture(part, index), (left, GAP + row * cell_height))
    return half


def _picture(part: Part, index: int) -> Image.Image:
    image = part.take(torch.tensor([index]))[0].cpu()
    if image.dtype != torch.uint8:
        image = (255 * (image - image.min()) / (image.max() - image.min()).clamp(min=1e-9)).byte()
    image = image[:3] if len(image) >= 3 else image[:1].expand(3, -1, -1)
    return Image.fromarray(np.ascontiguousarray(image.permute(1, 2, 0).numpy()))


def _draw_line(sheet: Image.Image, y: int) -> None:
    draw = ImageDraw.Draw(sheet)
    for x in range(GAP, sheet.width - GAP, 6):
        draw.rectangle((x, y - 1, x + 1, y), fill=INK)
