"""Find images to check an export with: those named, the data of the run, or noise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from .. import data, recipes
from ..data import custom
from ..errors import DataError, UnspurError
from ..runs.classifier import Classifier, load
from ..runs.model_description import read_description

COUNT = 64


@dataclass(frozen=True)
class CheckImages:
    """Images as the data of a model held them; `missing` says why they are noise, if they are."""

    images: Tensor
    missing: str = ""

    def __str__(self) -> str:
        return f"{len(self.images)} {'noise' if self.missing else 'real'} images"


def check_images(
    folder: Path, named: Path | None, root: Path | None, *, trust: bool = False
) -> CheckImages:
    """Load images for the model of a run: from the folder that was named, or of the run's data below `root`.

    Where the run's data is not at hand, the images are noise. `trust` is as for `unspur.load`.
    """
    model = load(folder, trust=trust)
    try:
        part = _part(folder, named, root, model)
    except UnspurError as error:
        if named is not None:
            raise
        return CheckImages(_noise(folder, model.shape), str(error).partition("\n")[0])
    step = max(1, len(part) // COUNT)
    return CheckImages(part.take(torch.arange(0, len(part), step)[:COUNT]))


def _part(folder: Path, named: Path | None, root: Path | None, model: Classifier) -> data.Part:
    """Load the test split, or what there is instead."""
    if named is not None:
        splits = custom.load(str(named), size=model.shape[1:], classes=model.classes)
    else:
        settings = recipes.load(str(folder / "recipe.toml")).data
        if settings.name == "given":
            raise DataError("it was given to the run. Name a folder of it with --images.")
        splits = data.load(
            settings.name, root=root, ratio=settings.ratio, seed=settings.seed, size=settings.size
        )
    return splits.test or splits.valid or splits.train


def _noise(folder: Path, shape: tuple[int, int, int]) -> Tensor:
    """Return random images: bytes, or floats where the model was trained on floats."""
    g = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (COUNT, *shape), generator=g, dtype=torch.uint8)
    return images if read_description(folder)["input"]["scale"] == 255 else images / 255
