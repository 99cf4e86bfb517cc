"""Read facts about an image file from its header: format, size, compression, camera.

No pixels are decoded. The contents of a file are not trusted: EXIF blocks are read up to a limit, texts are
shortened, and a file that cannot be read has no facts. File-system times are left out, because copying
changes them.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from PIL import ExifTags, Image

from .pixels import UnreadableImage, open_image

Fact = str | float
Facts = dict[str, Fact]

MOST_EXIF_BYTES = 2**16  # the largest segment of a JPEG
MOST_CHARACTERS = 60  # longest text
EXIF_IFD = 0x8769  # the part of EXIF that describes the photograph, below the part of the file
TEXTS = {
    "Make": "EXIF camera maker",
    "Model": "EXIF camera model",
    "Software": "EXIF software",
    "LensModel": "EXIF lens",
    "Orientation": "EXIF orientation",
    "Flash": "EXIF flash",
    "WhiteBalance": "EXIF white balance",
}
NUMBERS = {
    "ISOSpeedRatings": "EXIF ISO speed",
    "ExposureTime": "EXIF exposure time",
    "FNumber": "EXIF aperture",
    "FocalLength": "EXIF focal length",
}
DATES = {"DateTimeOriginal": "EXIF date", "DateTime": "EXIF date"}


def read_facts(path: Path) -> Facts:
    """Return the facts in the header of an image file; none if it cannot be read."""
    try:
        with open_image(path) as image:
            return {**_size_facts(image, path), **_jpeg_facts(image), **_exif_facts(image)}
    except (UnreadableImage, OSError):
        return {}


def _size_facts(image: Image.Image, path: Path) -> Facts:
    wide, high = image.size
    return {
        "file format": image.format or "",
        "colour mode": image.mode,
        "width": float(wide),
        "height": float(high),
        "width / height": wide / max(1, high),
        "bytes per pixel": os.path.getsize(path) / max(1, wide * high),
    }


def _jpeg_facts(image: Image.Image) -> Facts:
    """Return the compression of a JPEG: the mean step of its quantisation tables; none for other formats."""
    tables = getattr(image, "quantization", None)
    if not isinstance(tables, dict) or not tables.get(0):
        return {}
    steps = [float(step) for step in tables[0]]
    progressive = "yes" if image.info.get("progressive") else "no"
    return {"JPEG quantisation step": sum(steps) / len(steps), "progressive JPEG": progressive}


def _exif_facts(image: Image.Image) -> Facts:
    raw = image.info.get("exif")
    if not isinstance(raw, bytes) or len(raw) > MOST_EXIF_BYTES:
        return {"has EXIF": "no" if raw is None else "unreadable"}
    facts: Facts = {"has EXIF": "yes"}
    for name, value in _exif_entries(image).items():
        if (text := TEXTS.get(name)) and (fact := _short_text(value)):
            facts[text] = fact
        elif (number := NUMBERS.get(name)) and (finite := _finite(value)) is not None:
            facts[number] = finite
        elif (date := DATES.get(name)) and (day := _day(value)) is not None:
            facts[date] = day
    return facts


def _exif_entries(image: Image.Image) -> dict[str, Any]:
    """Return the EXIF entries by name; entries that Pillow cannot read are left out."""
    try:
        exif = image.getexif()
        entries = {**exif, **exif.get_ifd(EXIF_IFD)}
    except Exception:  # Pillow can raise anything for a damaged block
        return {}
    return {ExifTags.TAGS.get(tag, ""): value for tag, value in entries.items()}


def _short_text(value: Any) -> str:
    """Return a text or a number as a short line without control characters."""
    if not isinstance(value, str | int | float):
        return ""
    line = " ".join(str(value)[: 4 * MOST_CHARACTERS].split())
    return "".join(c for c in line if c.isprintable())[:MOST_CHARACTERS]


def _finite(value: Any) -> float | None:
    try:
        number = float(value[0] if isinstance(value, tuple) and value else value)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _day(value: Any) -> float | None:
    """Return a date of EXIF, `2024:05:31 12:00:00`, as the number 20240531."""
    digits = str(value)[:10].replace(":", "") if isinstance(value, str) else ""
    return float(digits) if len(digits) == 8 and digits.isascii() and digits.isdigit() else None
