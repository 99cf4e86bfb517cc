"""`unspur export`: a run's model made slim, written in other forms, checked and measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.table import Column, Table
from torch import Tensor

from .. import data, recipes
from ..data import custom
from ..deploy.export import BLOCK, FORMATS, Exported
from ..deploy.export import export as export_model
from ..errors import DataError, UnspurError
from ..masks.channels import Slimmed
from ..report import terminal
from ..report.terminal import err
from ..runs.classifier import load
from ..store import read_json
from .options import Root

COUNT = 64  # images to check with


def export(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    out: Annotated[Path | None, typer.Option("--out", help="Folder to write [RUN/export].")] = None,
    slim: Annotated[bool, typer.Option("--slim", help="Remove dead channels for good.")] = False,
    multiple: Annotated[
        int, typer.Option(min=1, help="Leave channels in multiples of this: odd numbers are slow.")
    ] = BLOCK,
    safetensors: Annotated[bool, typer.Option("--safetensors", help="Weights (default).")] = False,
    packed: Annotated[bool, typer.Option("--packed", help="Weights without zeros.")] = False,
    onnx: Annotated[bool, typer.Option("--onnx", help="For ONNX Runtime.")] = False,
    pt2: Annotated[bool, typer.Option("--pt2", help="For torch.export.load.")] = False,
    hub: Annotated[bool, typer.Option("--hub", help="A folder for Hugging Face.")] = False,
    images: Annotated[
        Path | None, typer.Option(help="Images to check with; the run's data by default.")
    ] = None,
    data_root: Root = None,
) -> None:
    """Write a run's model as files to deploy; each is checked against the model."""
    chosen = {"safetensors": safetensors, "packed": packed, "onnx": onnx, "pt2": pt2}
    wanted = tuple(name for name in FORMATS if chosen[name]) or ("safetensors",)
    checked, what = _images(folder, images, data_root)
    done = export_model(
        folder,
        out or folder / "export",
        checked,
        make_slim=slim,
        wanted=wanted,
        multiple=multiple,
        hub=hub,
    )
    _say(done, f"{len(checked)} {what}")


def _images(folder: Path, given: Path | None, root: Path | None) -> tuple[Tensor, str]:
    """Some real images as the model's data held them; where there are none, noise, and said so."""
    model = load(folder)
    try:
        part = _part(folder, given, root, model.shape, model.classes)
    except UnspurError as error:
        if given is not None:
            raise
        reason = str(error).partition("\n")[0]
        err.print(f"The run's data is not here ({reason}) Checking with noise.", markup=False)
        return _noise(folder, model.shape), "noise images"
    step = max(1, len(part) // COUNT)
    return part.take(torch.arange(0, len(part), step)[:COUNT]), "real images"


def _noise(folder: Path, shape: tuple[int, int, int]) -> Tensor:
    """Images of nothing: bytes, or floats where the model was trained on floats."""
    g = torch.Generator().manual_seed(0)
    found = torch.randint(0, 256, (COUNT, *shape), generator=g, dtype=torch.uint8)
    return found if read_json(folder / "model.json")["input"]["scale"] == 255 else found / 255


def _part(
    folder: Path,
    given: Path | None,
    root: Path | None,
    shape: tuple[int, int, int],
    classes: tuple[str, ...],
) -> data.Part:
    if given is not None:
        splits = custom.load(str(given), size=shape[1:], classes=classes)
    else:
        settings = recipes.load(str(folder / "recipe.toml")).data
        if settings.name == "given":
            raise DataError("it was given to the run. Name a folder of it with --images.")
        splits = data.load(
            settings.name, root=root, ratio=settings.ratio, seed=settings.seed, size=settings.size
        )
    return splits.test or splits.valid or splits.train


def _say(done: Exported, checked: str) -> None:
    head, *rows = done.table
    table = Table(head[0], *(Column(name, justify="right") for name in head[1:]))
    for cells in rows:
        table.add_row(*cells)
    terminal.out.print(table)
    for name, value in done.differences.items():
        if name != "read back":
            terminal.out.print(
                f"{name}: logits differ by at most {value:.1e} on {checked}.", markup=False
            )
    if done.slimmed is not None:
        _say_slim(done.slimmed)
    terminal.out.print(f"Everything is in {done.out}/.", markup=False, soft_wrap=True)


def _say_slim(slimmed: Slimmed) -> None:
    removed = sum(gone for gone, _ in slimmed.removed.values())
    of = sum(count for _, count in slimmed.removed.values())
    terminal.out.print(f"Removed {removed} of {of} channels and heads.", markup=False)
    if slimmed.filled:
        terminal.out.print(
            f"{slimmed.filled} more are dead and stay, to leave channels in multiples (--multiple 1 "
            "removes them).",
            markup=False,
        )
    if slimmed.carried:
        terminal.out.print(
            f"{slimmed.carried} dead channels stay: each carries the constants of its layer through zero "
            "padding.",
            markup=False,
        )
    told = {
        why: name for name, why in slimmed.unremovable.items() if "output of the model" not in why
    }
    for why, name in told.items():
        terminal.out.print(
            f"The channels of {name.rpartition('.')[0] or name} stay: {why}.", markup=False
        )
