"""`unspur review`: review the suspects of a run or an audit in the browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from ..report import terminal
from ..review.review_server import need_server, open_desk, open_server
from .options import RunModel, Trust


def review(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run or an audit.")],
    port: Annotated[
        int,
        typer.Option(
            min=0,
            max=65535,
            help="Port to listen on. 0: port 8471, or any free port if it is in use.",
        ),
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")
    ] = True,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Show the page without allowing changes.")
    ] = False,
    images: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Folder or table of the images, if they were moved."),
    ] = None,
    model: RunModel = None,
    trust: Trust = False,
) -> None:
    """Review the suspects in the browser: confirm, clear, relabel or exclude them, then debias."""
    need_server()
    desk = open_desk(folder, images=images, model=model, trust=trust, read_only=read_only)
    server = open_server(desk, port)
    counts = desk.review.replay.counts()
    _say(f"{counts['suspects']:,} suspects among {counts['images']:,} images in {folder}.")
    _say(f"Open {server.url}")
    _say("Only this computer can open the page. Ctrl-C stops it; every decision is saved.")
    server.run(lambda: _open(server.url) if browser else None)


def _open(url: str) -> None:
    """Open the page in the browser, if there is one; the address was printed too."""
    webbrowser.open(url)


def _say(text: str) -> None:
    terminal.out.print(text, markup=False, soft_wrap=True, highlight=False)
