"""`unspur predict`: classify images with a run's model."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..data.csv_text import escape_cell
from ..errors import UnspurError
from ..runs.named_models import open_model
from ..runs.predictions import image_files, predictions
from ..stages.place import pick_device
from .options import Device, RunModel, Trust


def predict(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    images: Annotated[
        list[Path], typer.Argument(metavar="IMAGE", help="Image files, or folders of them.")
    ],
    model: RunModel = None,
    device: Device = None,
    trust: Trust = False,
) -> None:
    """Classify images, and print path, class and probability as CSV."""
    classifier = open_model(folder, model, trust=trust).to(pick_device(device))
    files = image_files(images)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["path", "class", "probability"])
    done = 0
    for file, label, probability in predictions(classifier, files):
        writer.writerow([escape_cell(str(file)), escape_cell(label), f"{probability:.4f}"])
        done += 1
    if left := len(files) - done:
        raise UnspurError(
            f"{left} of {len(files)} files could not be read and were left out; see the warnings above."
        )
