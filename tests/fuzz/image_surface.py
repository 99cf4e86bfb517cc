"""Damaged image files give pixels of the requested size, the same each time, or an error with a reason."""

from __future__ import annotations

import io
import os
import random
from functools import cache
from typing import Any

import numpy as np
from PIL import Image

from unspur.data.decoding import files, pixels

from .desk import Desk
from .mutators import damage
from .oracle import Case

SIZE = (9, 7)
ACCEPTED = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
OTHERS = ("DDS", "ICO", "PCX", "TGA", "SGI", "JPEG2000", "EPS", "PDF", "XBM", "IM", "AVIF")
MODES = ("RGB", "L", "RGBA", "P", "1", "LA", "CMYK", "I;16", "F", "I")


def make(rng: random.Random, desk: Desk) -> Case:
    """Return a case that reads a file of some format: usually damaged, sometimes renamed or not a file."""
    kind, data = rng.choice(_samples())
    path = desk.root / f"image.{rng.choice(['png', 'jpg', 'tif', 'gif'])}"
    whole = rng.random() < 0.05
    path.write_bytes(data if whole else _spoil(rng, data))

    def call() -> Any:
        return files.read(path, SIZE), files.read(path, SIZE)

    def right(found: Any, warned: list[str]) -> bool:
        shapes = all(each.shape == (3, *SIZE) and each.dtype == np.uint8 for each in found)
        return shapes and np.array_equal(*found) and kind.split()[0] in ACCEPTED

    return Case(f"{kind} image", call, right, (path.name,))


def _spoil(rng: random.Random, data: bytes) -> bytes:
    """Damage a file; half of the time only its first bytes, where the headers are."""
    head = rng.choice([64, 512, len(data)])
    return damage(rng, data[:head]) + data[head:]


@cache
def _samples() -> list[tuple[str, bytes]]:
    """Return small files of every format and mode that can be written here."""
    Image.init()
    found = []
    for kind in (*ACCEPTED, *OTHERS):
        for mode in MODES:
            if (data := _encode(kind, mode)) is not None:
                found.append((f"{kind} {mode}", data))
    return found


def _encode(kind: str, mode: str) -> bytes | None:
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 256, (23, 31, 3), np.uint8))
    file = io.BytesIO()
    try:
        if mode == "F":
            image = Image.fromarray(np.asarray(image.convert("L"), np.float32) / 255)
        else:
            image = image.convert("I").convert(mode) if mode == "I;16" else image.convert(mode)
        image.save(file, kind)
    except Exception:  # this format has no such mode here
        return None
    return file.getvalue()


def prepare(desk: Desk) -> None:
    """Check that undamaged files of all accepted formats can be read."""
    read = set()
    for kind, data in _samples():
        path = desk.root / "whole.png"
        path.write_bytes(data)
        try:
            pixels.read(path, SIZE)
            read.add(kind.split()[0])
        except pixels.UnreadableImage:
            continue
        finally:
            os.unlink(path)
    assert read == set(ACCEPTED), read
