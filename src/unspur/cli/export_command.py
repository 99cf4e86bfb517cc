"""`unspur export`: a run's model made slim, written in other forms, checked and measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from ..deploy.check_images import check_images
from ..deploy.export import BLOCK, FORMATS, Exported
from ..deploy.export import export as export_model
from ..deploy.removal_summary import masks_channels, removal_summary
from ..report import terminal
from ..report.terminal import err
from ..runs.named_models import build_network
from .options import Root, RunModel, Trust


def export(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write to. Default: RUN/export.")
    ] = None,
    slim: Annotated[bool, typer.Option("--slim", help="Remove dead channels.")] = False,
    multiple: Annotated[
        int,
        typer.Option(
            min=1, help="Keep channels in multiples of this, because other numbers are slow."
        ),
    ] = BLOCK,
    safetensors: Annotated[
        bool, typer.Option("--safetensors", help="Write the weights. This is the default.")
    ] = False,
    packed: Annotated[
        bool, typer.Option("--packed", help="Write the weights without zeros.")
    ] = False,
    onnx: Annotated[bool, typer.Option("--onnx", help="Write an ONNX file.")] = False,
    pt2: Annotated[bool, typer.Option("--pt2", help="Write a file for torch.export.load.")] = False,
    hub: Annotated[
        bool, typer.Option("--hub", help="Write a folder for the Hugging Face Hub.")
    ] = False,
    license_: Annotated[
        str, typer.Option("--license", help="Licence on the model card, such as mit; with --hub.")
    ] = "",
    images: Annotated[
        Path | None,
        typer.Option(help="Images to check the files with. Default: the data of the run."),
    ] = None,
    model: RunModel = None,
    data_root: Root = None,
    trust: Trust = False,
) -> None:
    """Write a run's model as files to deploy; each is checked against the model."""
    chosen = {"safetensors": safetensors, "packed": packed, "onnx": onnx, "pt2": pt2}
    wanted = tuple(name for name in FORMATS if chosen[name]) or ("safetensors",)
    network = build_network(folder, model)
    found = check_images(folder, images, data_root, model=network, trust=trust)
    if found.missing:
        note = f"The run's data is not here ({found.missing}) Checking with noise."
        err.print(note, markup=False)
    done = export_model(
        folder,
        out or folder / "export",
        found.images,
        make_slim=slim,
        wanted=wanted,
        multiple=multiple,
        hub=hub,
        license=license_,
        trust=trust,
        model=network,
    )
    _print_table(done.table)
    for line in _lines(done, folder, str(found)):
        terminal.out.print(line, markup=False)
    terminal.out.print(f"Everything is in {done.out}/.", markup=False, soft_wrap=True)


def _print_table(rows: list[list[str]]) -> None:
    head, *body = rows
    table = Table(head[0], *(Column(name, justify="right") for name in head[1:]))
    for cells in body:
        table.add_row(*cells)
    terminal.out.print(table)


def _lines(done: Exported, folder: Path, checked: str) -> list[str]:
    """Return what to print below the table: the checks that were passed, and what was removed."""
    lines = [
        f"{name}: logits differ by at most {value:.1e} on {checked}."
        for name, value in done.differences.items()
        if name != "read back"
    ]
    if done.slimmed is not None:
        lines += removal_summary(done.slimmed, on_channels=masks_channels(folder))
    return lines
