"""Find images to check an export with: those of an option, those of the run's data, or noise."""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .. import data, recipes
from ..data.custom import class_folders
from ..data.custom.labelled import evenly_spaced, open_labelled
from ..data.sharded.shard_splits import find_shards
from ..errors import DataError, UnspurError
from ..recipes.settings import DataSettings
from ..runs.classifier import Classifier, load
from ..runs.model_description import read_description
from ..runs.run_folder import is_remote
from ..store import read_json

COUNT = 64


@dataclass(frozen=True)
class CheckImages:
    """Images before preprocessing; if they are noise, `missing` says why."""

    images: Tensor
    missing: str = ""

    def __str__(self) -> str:
        return f"{len(self.images)} {'noise' if self.missing else 'real'} images"


def check_images(
    folder: Path,
    named: Path | None,
    root: Path | None,
    *,
    model: nn.Module | None = None,
    trust: bool = False,
) -> CheckImages:
    """Load images for the model of a run: from the folder `named`, or from the run's data.

    Images in a folder need no labels. A user's images are looked for where the run found them, those of a
    benchmark below `root`. If the run's data is not available, the images are noise. `model` and `trust` are
    as for `unspur.load`; `model` is not changed.
    """
    classifier = load(folder, copy.deepcopy(model), trust=trust)
    if named is not None and named.is_dir() and find_shards(named) is None:
        return CheckImages(_in_folder(named, classifier))
    try:
        part = _part(folder, named, root, classifier)
    except UnspurError as error:
        if named is not None:
            raise
        return CheckImages(_noise(folder, classifier.shape), str(error).partition("\n")[0])
    return CheckImages(part.take(torch.tensor(evenly_spaced(len(part), COUNT))))


def _in_folder(folder: Path, model: Classifier) -> Tensor:
    """Read images of a folder and of the folders in it, at even distances."""
    files = class_folders.images(folder)
    if not files:
        raise DataError(f"there are no image files in {folder}.")
    return torch.stack([model.read(files[place]) for place in evenly_spaced(len(files), COUNT)])


def _part(folder: Path, named: Path | None, root: Path | None, model: Classifier) -> data.Part:
    """Load the test split of a benchmark (or another split if it has none), or a user's images."""
    if named is None:
        settings = recipes.load(str(folder / "recipe.toml")).data
        if settings.name != "given":
            return _benchmark(settings, root)
    where = str(named) if named is not None else find_source(folder)
    size = (model.shape[1], model.shape[2])
    return open_labelled(where, size=size, classes=model.classes, crop=model.crop, most=COUNT).part


def _benchmark(settings: DataSettings, root: Path | None) -> data.Part:
    splits = data.load(
        settings.name, root=root, ratio=settings.ratio, seed=settings.seed, size=settings.size
    )
    return splits.test or splits.valid or splits.train


def find_source(folder: Path) -> str:
    """Return where a run found the user's images; raise DataError if they were not files."""
    source = read_record(folder).get("source", "")
    if not source:
        raise DataError(
            "the run got its data from Python, not from files. Name a folder of images with --images."
        )
    return str(source) if is_remote(source) else os.path.normpath(folder / source)


def read_record(folder: Path) -> dict[str, Any]:
    """Return run.json; for the folder of another model of a run, with the images of that run."""
    record = read_json(folder / "run.json")
    run = folder.resolve().parent / "run.json"
    # Not by the name of the folder alone: a user may have named a run or an export so.
    if "source" in record or record.get("model") != folder.resolve().name or not run.is_file():
        return record
    source = str(read_json(run).get("source", ""))
    if source and not is_remote(source):
        source = os.path.join(os.pardir, source)
    return {**record, "source": source} if source else record


def _noise(folder: Path, shape: tuple[int, int, int]) -> Tensor:
    """Return random images: bytes, or floats if the model was trained on floats."""
    g = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (COUNT, *shape), generator=g, dtype=torch.uint8)
    return images if read_description(folder)["input"]["scale"] == 255 else images / 255
