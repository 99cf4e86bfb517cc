"""Read one image file as pixels. This module is also the program of a decoding process.

It imports nothing of unspur, so that the process starts quickly. A task is a line of JSON with the files to
decode and their place in shared memory. The answer is a line of JSON for each file: the reason why it cannot
be read, or an empty text.
"""

from __future__ import annotations

import io
import json
import mmap
import os
import signal
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

Bytes = NDArray[np.uint8]
Crop = Literal["stretch", "square", "inner"]

# The side of a centred square crop as a share of the shorter side; None for the whole image, stretched. The
# inner crop is that of "resize the shorter side to 256, then crop the central 224".
CROPS: dict[str, float | None] = {"stretch": None, "square": 1.0, "inner": 224 / 256}
# The formats that are opened. Pillow's readers of others are less robust (AVIF, DDS) or run other programs
# (EPS runs Ghostscript). PPM includes PBM and PGM; JPEG includes photographs with several frames (MPO).
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
MOST_PIXELS = 178_956_970  # largest image; Pillow's own limit
REASON_LENGTH = 200  # longest message of a decoder that is passed on
TRANSPARENT = ("RGBA", "RGBa", "LA", "La", "PA")  # modes of images with an alpha channel
BACKGROUND = "white"  # behind transparent pixels
SPAN = "\0"  # separates path, offset and size of a span; no path has this character
OPEN_MEMORIES = 4  # shared memories that a process keeps open


class UnreadableImage(Exception):  # noqa: N818  (the file is at fault)
    """A file that cannot be read as an image; the message is the reason."""


@contextmanager
def open_image(path: Path | str) -> Iterator[Image.Image]:
    """Open an image of a known format; any error until it is closed raises UnreadableImage."""
    try:
        with _open_regular(path) as file, Image.open(file, formats=FORMATS) as image:
            wide, high = image.size
            if wide * high > MOST_PIXELS:
                raise Image.DecompressionBombError
            yield image
    except Exception as error:  # a decoder can raise anything
        raise UnreadableImage(_reason(error)) from error


def _open_regular(path: Path | str) -> IO[bytes]:
    """Open a regular file or a span of one; refuse pipes and devices, which may never end."""
    if isinstance(path, str) and SPAN in path:
        return _open_span(*path.split(SPAN))
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError("it is not a regular file")
    return open(path, "rb", opener=_open_without_waiting)


def _open_span(path: str, offset: str, size: str) -> IO[bytes]:
    """Read a span of a file: `size` bytes from an offset."""
    with _open_regular(path) as file:
        file.seek(int(offset))
        content = file.read(int(size))
    if len(content) != int(size):
        raise ValueError("its shard is shorter than the index says")
    return io.BytesIO(content)


def name_span(path: str, offset: int, size: int) -> str:
    """Return the name that stands for a span of a file."""
    return f"{path}{SPAN}{offset}{SPAN}{size}"


def describe_file(name: str) -> str:
    """Return the name of a file or of a span for messages."""
    path, *span = name.split(SPAN)
    return f"the image at byte {span[0]} of {path}" if span else path


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file without blocking, in case it has become a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _reason(error: Exception) -> str:
    """Return the reason why a file cannot be read, in one line."""
    if isinstance(error, FileNotFoundError):
        return "it is missing"
    if isinstance(error, UnidentifiedImageError):
        return f"it is not an image in one of the formats {', '.join(FORMATS)}"
    if isinstance(error, Image.DecompressionBombError):
        return f"it has more than {MOST_PIXELS:,} pixels"
    text = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
    return str(text).splitlines()[0][:REASON_LENGTH]


def read(path: Path | str, size: tuple[int, int], crop: Crop = "stretch") -> Bytes:
    """Read an image file as (3, high, wide): upright, as RGB, resized; raise UnreadableImage if it fails."""
    high, wide = size
    with open_image(path) as image:
        # A large JPEG is decoded at a fraction of its size, but at least twice the requested size.
        image.draft(None, (2 * max(size), 2 * max(size)))
        whole = colours(_upright(image))
        box = _box(whole.size, CROPS[crop])
        small = whole.resize((wide, high), Image.Resampling.BILINEAR, box)
        return np.asarray(small).transpose(2, 0, 1)


def measure(path: Path | str) -> tuple[int, int]:
    """Return height and width of an upright image, from its header alone."""
    with open_image(path) as image:
        wide, high = image.size
        return (wide, high) if _orientation(image) >= 5 else (high, wide)


def _upright(image: Image.Image) -> Image.Image:
    """Rotate the image upright according to its EXIF orientation."""
    if _orientation(image) == 1:
        return image
    return ImageOps.exif_transpose(image)


def _orientation(image: Image.Image) -> int:
    """Return the EXIF orientation: 1 if the image is upright, 5 to 8 if it lies on its side."""
    if "exif" not in image.info:  # TIFF stores it elsewhere and is rotated when it is opened
        return 1
    orientation = image.getexif().get(0x0112, 1)
    return orientation if isinstance(orientation, int) and 1 <= orientation <= 8 else 1


def colours(image: Image.Image) -> Image.Image:
    """Convert the image to RGB: grey to three equal channels, 16 bits to 8, transparency over white."""
    if image.mode == "F" or image.mode.startswith("I"):
        return Image.fromarray(_bytes(image)).convert("RGB")
    if image.mode in TRANSPARENT or "transparency" in image.info:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, BACKGROUND), image).convert(
            "RGB"
        )
    return image if image.mode == "RGB" else image.convert("RGB")


def _bytes(image: Image.Image) -> Bytes:
    """Scale 16-bit grey values, or floating-point ones from 0 to 1, to bytes; refuse all others."""
    floating = image.mode == "F"
    values = np.asarray(image if floating else image.convert("I"))
    low, high, most = float(values.min()), float(values.max()), 1 if floating else 65535
    if not (low >= 0 and high <= most):
        raise ValueError(
            f"its grey values go from {low:g} to {high:g}, and only 0 to {most} can be read; rescale them"
        )
    return np.rint(values * 255.0 if floating else values / 257).astype(np.uint8)


def _box(size: tuple[int, int], share: float | None) -> tuple[float, float, float, float] | None:
    """Return a centred square, whose side is a share of the shorter side, as left, top, right, bottom."""
    if share is None:
        return None
    half = share * min(size) / 2
    across, down = size[0] / 2, size[1] / 2
    return across - half, down - half, across + half, down + half


def serve(tasks: Iterable[str], answers: IO[str]) -> None:
    """Process tasks until there are no more."""
    memories: dict[str, mmap.mmap] = {}
    for line in tasks:
        task = json.loads(line)
        for reason in _fill(_memory(memories, task), task):
            answers.write(json.dumps(reason) + "\n")
            answers.flush()


def _memory(memories: dict[str, mmap.mmap], task: dict[str, Any]) -> mmap.mmap:
    """Open the shared memory of a task; each one is opened once."""
    if task["memory"] not in memories:
        while len(memories) >= OPEN_MEMORIES:
            del memories[next(iter(memories))]
        file = os.open(task["path"], os.O_RDWR)
        memories[task["memory"]] = mmap.mmap(file, 0)
        os.close(file)
    return memories[task["memory"]]


def _fill(memory: mmap.mmap, task: dict[str, Any]) -> Iterator[str]:
    """Decode the files of a task into shared memory; yield the reason why each cannot be read, or ''."""
    high, wide = task["size"]
    count = len(task["files"])
    place = np.frombuffer(memory, np.uint8, count * 3 * high * wide, task["offset"])
    for image, file in zip(place.reshape(count, 3, high, wide), task["files"], strict=True):
        try:
            image[:] = read(file, (high, wide), task["crop"])
            yield ""
        except UnreadableImage as error:
            yield str(error)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process handles Ctrl-C
    serve(sys.stdin, sys.stdout)
