"""The options that several commands share."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..store import refuse_file


def check_out(out: Path | None) -> Path | None:
    """Raise before any work begins if the folder for results cannot be created."""
    if out is not None:
        refuse_file(out)
    return out


Out = Annotated[
    Path | None,
    typer.Option(
        "--out", callback=check_out, help="Folder for the results; runs/NAME-seedSEED by default."
    ),
]
StoreAt = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="Folder of stored stages, or an address such as s3://bucket/name; by default runs/store.",
    ),
]
Device = Annotated[
    str | None, typer.Option(help="cpu, cuda, cuda:1 ...; by default a GPU if there is one.")
]
Threads = Annotated[
    int | None,
    typer.Option(
        min=1, help="Threads on a CPU; by default all cores, or one if the machine is busy."
    ),
]
Root = Annotated[
    Path | None,
    typer.Option(help="Folder of benchmark data; by default $UNSPUR_DATA, then ./data."),
]
LogTo = Annotated[
    str | None,
    typer.Option(
        "--log-to",
        metavar="TRACKER",
        help="Send losses and scores to tensorboard:FOLDER, wandb:PROJECT or mlflow:EXPERIMENT.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Together = Annotated[int, typer.Option(min=1, help="Runs trained side by side on a GPU.")]
Ray = Annotated[
    str,
    typer.Option(
        "--ray",
        metavar="[ADDRESS]",
        help="Run groups on a Ray cluster; without an address, on a new one on this machine.",
    ),
]
CpusPerGroup = Annotated[
    float, typer.Option(min=0.01, help="CPUs and threads of a group of runs on a Ray cluster.")
]
GpusPerGroup = Annotated[
    float | None,
    typer.Option(
        min=0, help="GPUs of a group on a Ray cluster, such as 0.25; by default 1 if on a GPU."
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of training.")]
Size = Annotated[
    int,
    typer.Option(
        min=0,
        show_default=False,
        help="Largest side of an image in pixels; by default depends on the device.",
    ),
]
Model = Annotated[
    str, typer.Option(help="Built-in name, file.py:builder, timm:NAME or torchvision:NAME.")
]
OwnModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="Built-in name, file.py:builder, timm:NAME or torchvision:NAME; by default depends on the size "
        "of the images.",
    ),
]
Pretrained = Annotated[
    bool, typer.Option("--pretrained", help="Start from the network's published weights.")
]
Trust = Annotated[
    bool, typer.Option("--trust", help="Allow running the Python file that builds the network.")
]
RunModel = Annotated[
    str | None,
    typer.Option(
        "--model", help="file.py:builder of the network, if the run was made with an nn.Module."
    ),
]
Pattern = Annotated[
    str | None,
    typer.Option(help="Read classes or groups from file names, as in '*_{class}_{group}.png'."),
]
Bias = Annotated[
    str | None,
    typer.Option(
        help="Column with the bias labels, or a pattern of file names such as '*_{group}.png'."
    ),
]
Prefer = Annotated[
    str,
    typer.Option(help="Which images matter more: aligned, conflicting, or neither (balanced)."),
]
Method = Annotated[
    str, typer.Option(help="Method: jtt, dfr-mined, erm ...; `unspur methods` lists them.")
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="Folder of class folders or shards, table (.csv), or hf:NAME."
    ),
]
Changes = Annotated[list[str] | None, typer.Option("--set", help="Change a setting: key=value.")]


def command_line() -> str:
    """Return the command line of this process, to show it in the report."""
    return shlex.join(["unspur", *sys.argv[1:]])
