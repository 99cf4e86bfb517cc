"""`unspur export`: write a run's model as files to deploy, check them and measure their costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from ..deploy.check_images import check_images
from ..deploy.export import BLOCK, FORMATS, Exported
from ..deploy.export import export as export_model
from ..deploy.removal_summary import removal_summary, what_was_masked
from ..report import terminal
from ..report.terminal import err
from ..runs.named_models import build_network
from ..stages.threads import choose_threads
from .options import Root, RunModel, Trust


def export(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the files. Default: RUN/export.")
    ] = None,
    slim: Annotated[
        bool, typer.Option("--slim", help="Remove dead channels: smaller and faster.")
    ] = False,
    multiple: Annotated[
        int,
        typer.Option(
            min=1, help="Keep a multiple of this number of channels in each layer, which is faster."
        ),
    ] = BLOCK,
    safetensors: Annotated[
        bool, typer.Option("--safetensors", help="Write the weights as safetensors; the default.")
    ] = False,
    packed: Annotated[
        bool,
        typer.Option(
            "--packed", help="Write the weights without the zeros of cut ones: a smaller file."
        ),
    ] = False,
    onnx: Annotated[bool, typer.Option("--onnx", help="Write a file for ONNX Runtime.")] = False,
    pt2: Annotated[bool, typer.Option("--pt2", help="Write a file for torch.export.load.")] = False,
    hub: Annotated[
        bool, typer.Option("--hub", help="Add the files that Hugging Face reads.")
    ] = False,
    license_: Annotated[
        str, typer.Option("--license", help="The licence on the model card, such as mit.")
    ] = "",
    images: Annotated[
        Path | None, typer.Option(help="Images for the check; by default the run's data.")
    ] = None,
    model: RunModel = None,
    data_root: Root = None,
    trust: Trust = False,
) -> None:
    """Write a run's model as files to deploy, and check each file against the model."""
    chosen = {"safetensors": safetensors, "packed": packed, "onnx": onnx, "pt2": pt2}
    kinds = tuple(name for name in FORMATS if chosen[name]) or ("safetensors",)
    network = build_network(folder, model)
    found = check_images(folder, images, data_root, model=network, trust=trust)
    if found.missing:
        note = f"The run's data is not available ({found.missing}) The check uses noise."
        err.print(note, markup=False)
    choose_threads()  # on a busy machine, times with several threads vary by a factor of ten
    done = export_model(
        folder,
        out or folder / "export",
        found.images,
        make_slim=slim,
        kinds=kinds,
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
    """Return the lines below the table: the results of the checks, and what was removed."""
    lines = [
        f"{name}: logits differ by at most {value:.1e} on {checked}."
        for name, value in done.differences.items()
        if name != "read back"
    ]
    if done.slimmed is not None:
        lines += removal_summary(done.slimmed, what_was_masked(folder))
    return lines
