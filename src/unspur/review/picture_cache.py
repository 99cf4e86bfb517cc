"""A cache of encoded pictures: each is made on first use and kept while there is room."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from PIL import Image

THUMBNAIL, LARGE = 192, 1024  # pixels of the longer side
SMALL = 96  # pixels; pictures up to this size are encoded without loss, as PNG
ROOM = 96 * 2**20  # largest total size of the pictures, in bytes


class EncodedPicture(NamedTuple):
    """The bytes of a picture and their media type."""

    data: bytes
    kind: str


def encode(image: Image.Image) -> EncodedPicture:
    """Return a picture as PNG if it is small or has transparency, otherwise as JPEG."""
    file = io.BytesIO()
    if max(image.size) <= SMALL or image.mode == "RGBA":
        image.save(file, "PNG")
        return EncodedPicture(file.getvalue(), "image/png")
    image.save(file, "JPEG", quality=88)
    return EncodedPicture(file.getvalue(), "image/jpeg")


class PictureCache:
    """A cache of pictures by key; the least recently used are removed first."""

    def __init__(self, room: int = ROOM):
        self._kept: OrderedDict[object, EncodedPicture] = OrderedDict()
        self._lock = threading.Lock()
        self._room, self._size = room, 0

    def get(self, key: object, make: Callable[[], Image.Image]) -> EncodedPicture:
        """Return a picture; call `make` if it is not in the cache."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        picture = encode(make())
        with self._lock:
            if key not in self._kept:
                self._kept[key] = picture
                self._size += len(picture.data)
            while self._size > self._room:
                _, old = self._kept.popitem(last=False)
                self._size -= len(old.data)
        return picture
