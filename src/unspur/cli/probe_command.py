"""`unspur probe`: hide or replace something in images, and measure how the predictions change."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from .. import probe_api
from ..errors import UsageError
from ..probe import wording
from ..probe.findings import Probe
from ..probe.image_changes import Change, StyleOf, hide, load_function
from ..probe.patches import PLACES, read_patch
from ..report import terminal
from ..report.probe_page import NUMBERS, PAGE
from .help_text import PlainCommand
from .options import Device, Root, RunModel, Trust, check_out, command_line

NUMBERS_OF_REGION = re.compile(r"\d+,\d+,\d+,\d+")
MOST_SENTENCES = 3


class ProbeCommand(PlainCommand):
    """A command that takes `--hide region 0,0,64,64` without quotes."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, join_region(args))


def join_region(args: list[str]) -> list[str]:
    """Join the numbers of a region to the word `region` before them."""
    joined: list[str] = []
    for arg in args:
        if (
            joined
            and joined[-1] in ("region", "--hide=region")
            and NUMBERS_OF_REGION.fullmatch(arg)
        ):
            joined[-1] += f" {arg}"
        else:
            joined.append(arg)
    return joined


COMMAND = ProbeCommand


def probe(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="Labelled folder, table or benchmark; by default the run's data.",
        ),
    ] = None,
    hide_: Annotated[
        list[str] | None,
        typer.Option(
            "--hide",
            help="What to hide: border, corners, colour, light, detail, background, text, or region X,Y,W,H.",
        ),
    ] = None,
    paste: Annotated[Path | None, typer.Option(help="Paste this picture into every image.")] = None,
    at: Annotated[
        str, typer.Option(help=f"Where to paste the picture: {', '.join(PLACES)}.")
    ] = "corner",
    swap_style: Annotated[
        list[str] | None, typer.Option(help="Give all images the style of this class.")
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option(
            help="Your own change: file.py:function, from image to image. This runs the file."
        ),
    ] = None,
    most: Annotated[
        int, typer.Option("--images", min=20, help="Largest number of images to score.")
    ] = probe_api.MOST,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", callback=check_out, help="Folder for the page; by default RUN/probe."
        ),
    ] = None,
    model: RunModel = None,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    device: Device = None,
    data_root: Root = None,
    trust: Trust = False,
) -> None:
    """Test a suspicion: change images, and measure how the predictions change."""
    changes = _changes(hide_ or [], paste, at, swap_style or [], change or [])
    where = out or folder / "probe"
    found = probe_api.probe(
        folder,
        source,
        changes or None,
        network=model,
        trust=trust,
        most=most,
        seed=seed,
        device=device,
        data_root=data_root,
        out=where,
        command=command_line(),
        follow=_follow,
    )
    _say(found, where)


def _changes(
    hidden: list[str], paste: Path | None, at: str, styles: list[str], own: list[str]
) -> list[Change]:
    if at != "corner" and paste is None:
        raise UsageError("--at is the position of a picture to paste. Add --paste FILE.")
    patches = [read_patch(paste, at)] if paste else []
    return [*map(hide, hidden), *patches, *map(StyleOf, styles), *map(load_function, own)]


def _follow(title: str) -> None:
    if terminal.err.is_terminal:
        terminal.err.print(f"trying {title} ...", markup=False, highlight=False)


def _say(found: Probe, out: Path) -> None:
    _print(f"{wording.headline(found)}.")
    header, *rows = wording.table_of(found)
    table = Table(header[0], *(Column(name, justify="right") for name in header[1:]))
    for cells in rows:
        table.add_row(*cells)
    terminal.out.print(table)
    first = found.changes[0]
    _print(wording.effect_sentence(first, found.models[0]))
    for row in wording.flipped_classes(first.first)[:MOST_SENTENCES]:
        _print(wording.flip_sentence(first, row))
    for doubt in sorted({change.doubt for change in found.changes if change.doubt}):
        _print(f"(?) {doubt}")
    for reason in found.left_out:
        _print(f"Not tried: {reason}")
    _print(wording.EXPLANATION)
    if found.doubt:
        _print(found.doubt)
    pages = f"Open {out / PAGE} for the pictures. " if (out / PAGE).exists() else ""
    _print(f"{pages}The numbers are in {out / NUMBERS}.")


def _print(text: str) -> None:
    terminal.out.print(text, markup=False, soft_wrap=True, highlight=False)
