"""`unspur report`: the page about a run or an audit, made again from what is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import UnspurError
from ..report import page, terminal
from ..report.events import write_events
from ..runs.finished import is_audit, open_run


def report(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run or an audit.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="File for the page. Default: RUN/report.html.")
    ] = None,
    store: Annotated[
        Path | None, typer.Option("--store", help="Folder of stored results, if it was moved.")
    ] = None,
    tsne: Annotated[
        bool,
        typer.Option(
            "--tsne", help="Draw maps of the images by t-SNE. Takes seconds for each network."
        ),
    ] = False,
    tensorboard: Annotated[
        Path | None,
        typer.Option(help="Folder to also write the training curves to, for TensorBoard."),
    ] = None,
) -> None:
    """Write the page about a run or an audit: verdict, numbers, suspects, pictures, settings."""
    if tensorboard is not None and is_audit(folder):
        raise UnspurError(f"{folder} is an audit; --tensorboard shows the training of a run.")
    if store is not None and not store.is_dir():
        raise UnspurError(f"there is no folder {store} to take finished stages from.")
    try:
        path = page.write(folder, store, out=out, tsne=tsne)
    except ModuleNotFoundError as error:
        raise UnspurError(str(error)) from error
    terminal.out.print(f"Open {path}.", markup=False, soft_wrap=True)
    if tensorboard is not None:
        write_events(open_run(folder, store), tensorboard)
        said = f"See training with: tensorboard --logdir {tensorboard}"
        terminal.out.print(said, markup=False, soft_wrap=True)
