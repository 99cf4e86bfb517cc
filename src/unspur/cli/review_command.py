"""`unspur review`: go through the suspects of a run or an audit in the browser."""

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
        int, typer.Option(min=0, max=65535, help="Port to listen on. 0: any free port.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")
    ] = True,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Only look. Nothing is changed or written.")
    ] = False,
    images: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="The images, if they are not where the run found them."),
    ] = None,
    model: RunModel = None,
    trust: Trust = False,
) -> None:
    """Go through the suspects in the browser: confirm, clear, relabel or exclude them, then debias."""
    need_server()
    desk = open_desk(folder, images=images, model=model, trust=trust, read_only=read_only)
    server = open_server(desk, port)
    counts = desk.review.replay.counts()
    _say(f"{counts['suspects']:,} suspects among {counts['images']:,} images in {folder}.")
    _say(f"Open {server.url}")
    _say("The page is served to this computer alone. Ctrl-C ends it; every decision is saved.")
    server.run(lambda: _open(server.url) if browser else None)


def _open(url: str) -> None:
    """Open the page; without a browser the address that was printed is enough."""
    webbrowser.open(url)


def _say(text: str) -> None:
    terminal.out.print(text, markup=False, soft_wrap=True, highlight=False)
