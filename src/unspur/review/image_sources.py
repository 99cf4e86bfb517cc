"""The images of a review, by row number: no URL of the page contains the name of a file.

Files are listed in the same way as by the run, and an image is shown only if its name is in that list. Images
are always decoded and encoded again; the bytes of a file are never sent.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from .. import data, recipes
from ..data.custom import class_folders, table
from ..data.custom.assembly import UserImages
from ..data.custom.listing import printable
from ..data.decoding.pixels import UnreadableImage, colours, open_image
from ..data.splits import Part
from ..errors import DataError, UnspurError
from ..runs import audit_folder
from ..runs.classifier import Classifier
from ..runs.finished import is_audit
from ..runs.run_folder import is_remote
from ..stages import thumbnails
from ..stages.corrections import sample_names
from ..store import read_json
from .suspect_table import SuspectTable

GONE = "This image is no longer in the data. Put it back, or exclude it."
LARGEST = 256  # pixels of images that are not in single files


class ImageSource(Protocol):
    """The images of the rows, as pictures and as the input of a network."""

    def show(self, row: int, side: int) -> Image.Image: ...
    def pixels(self, row: int, model: Classifier) -> Tensor: ...


class FileImages:
    """Images in files; `paths` has the file of each row, None if it is not in the data."""

    def __init__(self, paths: Sequence[Path | None]):
        self.paths = paths

    def show(self, row: int, side: int) -> Image.Image:
        """Return an upright image in RGB, its longer side at most `side` pixels."""
        path = self._path(row)
        try:
            with open_image(path) as image:
                image.draft(None, (2 * side, 2 * side))
                shown = colours(ImageOps.exif_transpose(image))
                shown.thumbnail((side, side), Image.Resampling.BILINEAR)
                return shown.copy()
        except UnreadableImage as error:
            raise DataError(
                f"This image cannot be read ({error}). Replace the file, or exclude the image."
            ) from None

    def pixels(self, row: int, model: Classifier) -> Tensor:
        return model.read(self._path(row))

    def _path(self, row: int) -> Path:
        path = self.paths[row]
        if path is None:
            raise DataError(GONE)
        return path


def to_picture(image: Tensor) -> Image.Image:
    """Return an image (C, H, W) as a picture in RGB."""
    pixels = thumbnails.colours(image[None])[0].byte()
    return Image.fromarray(np.ascontiguousarray(pixels.permute(1, 2, 0).numpy()))


class PartImages:
    """Images of a split; `places` has the index of each row, None if it is not in the split."""

    def __init__(self, part: Part, places: Sequence[int | None]):
        self.part, self.places = part, places

    def show(self, row: int, side: int) -> Image.Image:
        """Return an image in RGB, its longer side at most `side` pixels."""
        image = to_picture(self._take(row))
        image.thumbnail((side, side), Image.Resampling.BILINEAR)
        return image

    def pixels(self, row: int, model: Classifier) -> Tensor:
        image = self._take(row)
        if tuple(image.shape) != model.shape:
            raise DataError(
                f"The model needs images of shape {model.shape}, not {tuple(image.shape)}."
            )
        return image

    def _take(self, row: int) -> Tensor:
        place = self.places[row]
        if place is None:
            raise DataError(GONE)
        return self.part.take(torch.tensor([place]))[0].cpu()


class NoImages:
    """A source without images; `why` is the error message for every image."""

    def __init__(self, why: str):
        self.why = why

    def show(self, row: int, side: int) -> Image.Image:
        raise DataError(self.why)

    def pixels(self, row: int, model: Classifier) -> Tensor:
        raise DataError(self.why)


def find_images(folder: Path, rows: SuspectTable, data_path: str | None = None) -> ImageSource:
    """Find the images of a run or an audit: at their original place, or in `data_path`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the run has already warned about the data
            return _find(folder, rows, data_path)
    except UnspurError as error:
        if data_path is not None:
            raise
        return NoImages(f"No image can be shown: {error} Give the data with --images.")


def _find(folder: Path, rows: SuspectTable, data_path: str | None) -> ImageSource:
    source = data_path or data_source(folder)
    if source and not is_remote(source) and rows.name_column == "path":
        return FileImages(list(map(_paths_by_name(Path(source)).get, rows.names)))
    if source:
        return _in_part(UserImages(source).open(LARGEST).train, rows)
    return _in_part(_benchmark(folder), rows)


def _paths_by_name(source: Path) -> dict[str, Path]:
    """Return every image of a folder or a table by its name in suspects.csv."""
    if source.suffix.lower() in table.SUFFIXES and not source.is_dir():
        listing = table.list_images(source, labelled=False)
        return {printable(row.path, listing.root): row.path for row in listing.rows}
    if not source.is_dir():
        raise DataError(f"there is no folder {printable(source)}.")
    return {printable(path, source): path for path in class_folders.images(source)}


def _in_part(part: Part, rows: SuspectTable) -> PartImages:
    names = sample_names(part) if rows.name_column == "path" else map(str, range(len(part)))
    places = {name: i for i, name in enumerate(names)}
    return PartImages(part, list(map(places.get, rows.names)))


def data_source(folder: Path) -> str:
    """Return the path of the user's images that a run or an audit recorded; "" if it recorded none."""
    if is_audit(folder):
        about = read_json(folder / audit_folder.RECORD).get("data") or {}
        return _existing(folder, str(about.get("source", "")), str(about.get("where", "")))
    source = str(read_json(folder / "run.json").get("source", ""))
    return source if not source or is_remote(source) else os.path.normpath(folder / source)


def _existing(folder: Path, source: str, where: str) -> str:
    """Return the path of an audit's data relative to its folder if it exists, else as on its command line."""
    if not source or is_remote(source):
        return source
    relative = os.path.normpath(folder / where) if where else ""
    return relative if relative and os.path.exists(relative) else source


def _benchmark(folder: Path) -> Part:
    """Load the training split of the benchmark that a recipe names."""
    if is_audit(folder):
        raise DataError("the data of the audit came from Python and are not stored.")
    settings = recipes.load(str(folder / "recipe.toml")).data
    if settings.name == "given":
        raise DataError("the data of the run came from Python and are not stored.")
    return data.load(
        settings.name, ratio=settings.ratio, seed=settings.seed, size=settings.size
    ).train
