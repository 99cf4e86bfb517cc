"""Draw examples of a data set: aligned images above a dotted line, conflicting ones below."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor

from ...errors import DataError
from ..splits import Part, Splits

GAP, LINE, ROWS, LARGEST = 2, 14, 3, 10
PAPER, INK = (255, 255, 255), (90, 90, 90)


def save(splits: Splits, path: Path, *, columns: int = LARGEST) -> None:
    """Write the sheet of training images as PNG."""
    image = render(splits, columns=columns)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path, "PNG")
    except OSError as error:
        raise DataError(f"cannot write {path} ({error.strerror}).") from None


def render(splits: Splits, *, columns: int = LARGEST, rows: int = ROWS) -> Image.Image:
    """Draw a column for each class (several if there are few classes), aligned above conflicting images."""
    conflicting = splits.conflicting("train")
    if conflicting is None:
        raise DataError(
            f"{splits.name}: there are no bias labels, so aligned and conflicting images cannot be shown."
        )
    across = max(1, columns // len(splits.classes))
    halves = [
        _half(splits.train, chosen, len(splits.classes), rows, across)
        for chosen in (~conflicting, conflicting)
    ]
    wide, high = halves[0].size
    sheet = Image.new("RGB", (wide, 2 * high + LINE), PAPER)
    sheet.paste(halves[0], (0, 0))
    sheet.paste(halves[1], (0, high + LINE))
    _dot(sheet, high + LINE // 2)
    return sheet


def _half(part: Part, chosen: Tensor, classes: int, rows: int, across: int) -> Image.Image:
    """Draw the first selected images of each class in its columns; missing images leave empty places."""
    _, high, wide = part.shape
    cell_wide, cell_high = wide + GAP, high + GAP
    half = Image.new("RGB", (classes * across * cell_wide + GAP, rows * cell_high + GAP), PAPER)
    for label in range(classes):
        members = (chosen & (part.targets == label)).nonzero().squeeze(1)[: rows * across]
        for place, index in enumerate(members.tolist()):
            row, column = divmod(place, across)
            left = GAP + (label * across + column) * cell_wide
            half.paste(_picture(part, index), (left, GAP + row * cell_high))
    return half


def _picture(part: Part, index: int) -> Image.Image:
    image = part.take(torch.tensor([index]))[0].cpu()
    if image.dtype != torch.uint8:
        image = (255 * (image - image.min()) / (image.max() - image.min()).clamp(min=1e-9)).byte()
    image = image[:3] if len(image) >= 3 else image[:1].expand(3, -1, -1)
    return Image.fromarray(np.ascontiguousarray(image.permute(1, 2, 0).numpy()))


def _dot(sheet: Image.Image, y: int) -> None:
    draw = ImageDraw.Draw(sheet)
    for x in range(GAP, sheet.width - GAP, 6):
        draw.rectangle((x, y - 1, x + 1, y), fill=INK)
