"""`unspur predict` and `evaluate`: what a run's model says of other images."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from .. import data, runs
from ..csv_text import escape_cell
from ..data import Splits, custom
from ..data.custom import class_folders as folder_of_images
from ..errors import DataError, UnspurError
from ..report import terminal
from ..report.terminal import percent
from .options import Root, Trust


def predict(
    folder: Annotated[Path, typer.Argument(help="Folder of a run.")],
    images: Annotated[list[Path], typer.Argument(help="Image files, or folders of them.")],
    trust: Trust = False,
) -> None:
    """Classify images; a CSV of path, class and probability."""
    model = runs.load(folder, trust=trust)
    files = [file for path in images for file in _images(path)]
    if not files:
        raise UnspurError(f"no image files under {', '.join(map(str, images))}.")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["path", "class", "probability"])
    done = 0
    for start in range(0, len(files), 256):
        for file, label, probability in _predicted(model, files[start : start + 256]):
            writer.writerow([escape_cell(str(file)), escape_cell(label), f"{probability:.4f}"])
            done += 1
    if left := len(files) - done:
        raise UnspurError(f"{left} of {len(files)} files could not be read and are left out.")


def _predicted(model: runs.Classifier, files: list[Path]) -> Iterator[tuple[Path, str, float]]:
    """Files with what the model says of them; those that cannot be read are told and left out."""
    try:
        found = model.predict(files)
    except DataError as error:
        if len(files) == 1:
            terminal.err.print(str(error), markup=False, soft_wrap=True)
            return
        for file in files:
            yield from _predicted(model, [file])
    else:
        for file, (label, probability) in zip(files, found, strict=True):
            yield file, label, probability


def evaluate(
    folder: Annotated[Path, typer.Argument(help="Folder of a run.")],
    source: Annotated[str, typer.Argument(metavar="DATA", help="cmnist, demo, or a folder.")],
    ratio: Annotated[str, typer.Option(help="Which set of a benchmark.")] = "1pct",
    data_root: Root = None,
    trust: Trust = False,
) -> None:
    """Score a run's model on the test split of a data set."""
    model = runs.load(folder, trust=trust)
    scores = runs.score(model, _scored(source, ratio, data_root, model))
    table = Table()
    table.add_column("accuracy")
    table.add_column(str(folder), justify="right")
    for name, value in scores.as_json().items():
        if name != "groups":
            table.add_row(name.replace("_", " "), percent(value))  # type: ignore[arg-type]
    terminal.out.print(table)


def _scored(source: str, ratio: str, root: Path | None, model: runs.Classifier) -> Splits:
    """A benchmark by name, a folder in the layout of one, or a user's own images."""
    if source in data.DATASETS:
        side = model.shape[1] if source in data.SIZED else 0
        return data.load(source, root=root, ratio=ratio, size=side)
    if (Path(source) / ratio / "align").is_dir():
        return data.load("folder", root=Path(source), ratio=ratio)
    return custom.load(source, size=model.shape[1:], classes=model.classes, crop=model.crop)


def _images(path: Path) -> list[Path]:
    return folder_of_images.images(path) if path.is_dir() else [path]
