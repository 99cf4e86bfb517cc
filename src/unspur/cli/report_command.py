"""`unspur report`: write the report of a run or an audit again, from stored results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import UnspurError
from ..integrations.trackers import open_tracker
from ..report import page, terminal
from ..runs.finished import is_audit, open_run
from ..runs.log_replay import replay_log


def report(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run or an audit.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="HTML file of the report. Default: RUN/report.html."),
    ] = None,
    store: Annotated[
        Path | None, typer.Option("--store", help="Folder of stored stages, if it was moved.")
    ] = None,
    tsne: Annotated[
        bool,
        typer.Option(
            "--tsne", help="Add t-SNE maps of the samples; some seconds for each network."
        ),
    ] = False,
    tensorboard: Annotated[
        Path | None, typer.Option(help="Also write the training curves to this TensorBoard folder.")
    ] = None,
) -> None:
    """Write the report of a run or an audit: verdict, numbers, suspects, pictures, settings."""
    if tensorboard is not None and is_audit(folder):
        raise UnspurError(f"{folder} is an audit; --tensorboard is only for runs. Leave it out.")
    if store is not None and not store.is_dir():
        raise UnspurError(f"--store {store} is not a folder. Name the folder of stored stages.")
    try:
        path = page.write(folder, store, out=out, tsne=tsne)
    except ModuleNotFoundError as error:
        raise UnspurError(str(error)) from error
    terminal.out.print(f"Open {path}.", markup=False, soft_wrap=True)
    if tensorboard is not None:
        with open_tracker(f"tensorboard:{tensorboard}") as tracker:
            replay_log(open_run(folder, store), tracker)
        text = f"To see the training curves: tensorboard --logdir {tensorboard}"
        terminal.out.print(text, markup=False, soft_wrap=True)
