"""Options that several commands have."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..store import refuse_file


def check_out(out: Path | None) -> Path | None:
    """Raise before anything is done if a folder for results cannot be made."""
    if out is not None:
        refuse_file(out)
    return out


Out = Annotated[
    Path | None, typer.Option("--out", callback=check_out, help="Folder for the result.")
]
StoreAt = Annotated[
    str | None,
    typer.Option(
        "--store", help="Folder of finished stages (runs/store), or an address as s3://bucket/name."
    ),
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 ...; a GPU if there is one.")]
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="Threads on a CPU; all cores, or one where the machine is busy."),
]
Root = Annotated[Path | None, typer.Option(help="Folder of real data; UNSPUR_DATA, then ./data.")]
LogTo = Annotated[
    str | None,
    typer.Option(
        "--log-to",
        metavar="TRACKER",
        help="Send losses and scores to tensorboard:FOLDER, wandb:PROJECT or mlflow:EXPERIMENT.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Together = Annotated[int, typer.Option(min=1, help="Runs trained side by side on a GPU.")]
Ray = Annotated[
    str,
    typer.Option(
        "--ray",
        metavar="[ADDRESS]",
        help="Run groups on a Ray cluster; without an address, on one of this machine.",
    ),
]
CpusPerGroup = Annotated[
    float, typer.Option(min=0.01, help="CPUs, and threads, of a group of runs on a Ray cluster.")
]
GpusPerGroup = Annotated[
    float | None,
    typer.Option(min=0, help="GPUs of a group on a Ray cluster, as 0.25; 1 if the device is one."),
]
Seed = Annotated[int, typer.Option(help="Seed of all training.")]
Size = Annotated[
    int,
    typer.Option(
        min=0,
        show_default=False,
        help="Largest side of an image in pixels; by the device unless given.",
    ),
]
Model = Annotated[
    str, typer.Option(help="Built-in name, file.py:builder, timm:NAME or torchvision:NAME.")
]
OwnModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="Built-in name, file.py:builder, timm:NAME or torchvision:NAME; by the images' size.",
    ),
]
Pretrained = Annotated[
    bool, typer.Option("--pretrained", help="Start from the network's published weights.")
]
Trust = Annotated[
    bool, typer.Option("--trust", help="Run the file that the folder's network is built from.")
]
RunModel = Annotated[
    str | None,
    typer.Option(
        "--model", help="file.py:builder of a model that was given as an object in Python."
    ),
]
Pattern = Annotated[
    str | None,
    typer.Option(help="File names with class or group, as in '*_{class}_{group}.png'."),
]
Bias = Annotated[
    str | None,
    typer.Option(
        help="Where the shortcut is written, for scores: a column, or file names as '*_{group}.png'."
    ),
]
Prefer = Annotated[
    str,
    typer.Option(help="Which images matter more: balanced, aligned or conflicting."),
]
Method = Annotated[
    str, typer.Option(help="Another method: jtt, dfr-mined, erm ...; `unspur methods` lists them.")
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="Folder of class folders or shards, table (.csv), hf:NAME."
    ),
]
Changes = Annotated[list[str] | None, typer.Option("--set", help="Change a setting: key=value.")]


def command_line() -> str:
    """Return what the user typed, for the page to show."""
    return shlex.join(["unspur", *sys.argv[1:]])
