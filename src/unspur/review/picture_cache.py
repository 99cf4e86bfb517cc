"""Encoded pictures of rows, made when they are first asked for and kept while there is room."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from PIL import Image

THUMBNAIL, LARGE = 192, 1024  # pixels of the longer side
SMALL = 96  # up to this side a picture loses nothing: PNG
ROOM = 96 * 2**20  # bytes of all pictures that are kept


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
    """Keeps pictures by key, the least recently used leave first."""

    def __init__(self, room: int = ROOM):
        self._kept: OrderedDict[object, EncodedPicture] = OrderedDict()
        self._lock = threading.Lock()
        self._room, self._taken = room, 0

    def get(self, key: object, make: Callable[[], Image.Image]) -> EncodedPicture:
        """Return a picture; `make` is called if it is not kept."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        picture = encode(make())
        with self._lock:
            if key not in self._kept:
                self._kept[key] = picture
                self._taken += len(picture.data)
            while self._taken > self._room:
                _, old = self._kept.popitem(last=False)
                self._taken -= len(old.data)
        return picture
