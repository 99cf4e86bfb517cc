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
        help="Folder of stored results (default: runs/store), or an address such as s3://bucket/name.",
    ),
]
Device = Annotated[
    str | None, typer.Option(help="cpu, cuda, cuda:1 ... Default: a GPU if there is one.")
]
Threads = Annotated[
    int | None,
    typer.Option(
        min=1, help="Threads on a CPU. Default: all cores, or one if the machine is busy."
    ),
]
Root = Annotated[
    Path | None,
    typer.Option(help="Folder of the benchmark data. Default: $UNSPUR_DATA, then ./data."),
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
Together = Annotated[
    int, typer.Option(min=1, help="How many runs to train at the same time on a GPU.")
]
Ray = Annotated[
    str,
    typer.Option(
        "--ray",
        metavar="[ADDRESS]",
        help="Run on a Ray cluster. Without an address, one is started on this machine.",
    ),
]
CpusPerGroup = Annotated[
    float, typer.Option(min=0.01, help="CPUs and threads for each group of runs on a Ray cluster.")
]
GpusPerGroup = Annotated[
    float | None,
    typer.Option(
        min=0, help="GPUs for each group on a Ray cluster, such as 0.25. Default: 1 on a GPU."
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.")]
Size = Annotated[
    int,
    typer.Option(
        min=0,
        show_default=False,
        help="Largest side of an image in pixels. Default: 64 in an audit, otherwise 96 on a CPU "
        "and 128 on a GPU.",
    ),
]
Model = Annotated[
    str, typer.Option(help="Built-in name, file.py:builder, timm:NAME or torchvision:NAME.")
]
OwnModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="Built-in name, file.py:builder, timm:NAME or torchvision:NAME. Default: by image size.",
    ),
]
Pretrained = Annotated[
    bool, typer.Option("--pretrained", help="Start from the published weights of the network.")
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Run the file (file.py:builder) that builds the network; only for files you trust.",
    ),
]
RunModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="file.py:builder that makes the network, if the run was given a model object in Python.",
    ),
]
Pattern = Annotated[
    str | None,
    typer.Option(
        help="Pattern of file names with class or group, such as '*_{class}_{group}.png'."
    ),
]
Bias = Annotated[
    str | None,
    typer.Option(
        help="Where the bias labels are: a column of the table, or a pattern of file names such as "
        "'*_{group}.png'. Used for scores, and for training only by methods that need them."
    ),
]
Prefer = Annotated[
    str,
    typer.Option(
        help="Which images matter more: aligned, conflicting, or both equally (balanced)."
    ),
]
Method = Annotated[
    str, typer.Option(help="Method: jtt, dfr-mined, erm ...; `unspur methods` lists them.")
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="Folder of class folders, table (.csv), hf:NAME, or folder of shards."
    ),
]
Suspects = Annotated[
    Path | None,
    typer.Option(
        help="A suspects.csv of an audit or a run, corrected if you like. Its flags replace the miner's."
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change a setting, such as prune.steps=500. Repeatable."
    ),
]


def command_line() -> str:
    """Return the command line of this process, to show it in the report."""
    return shlex.join(["unspur", *sys.argv[1:]])
