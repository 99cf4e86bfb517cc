"""The command line: nothing here that a Python user could not do too; a file has one command or a few."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated

import typer

from ..console import err, out
from ..errors import Interrupted, UnspurError
from ..version import VERSION
from . import audit, bench, data, export, kept, lists, report, reproduce, run, use

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for command in (
    *(run.run, run.debias, run.demo, bench.bench, audit.audit, report.report, export.export),
    *(reproduce.reproduce, lists.methods, lists.theory, lists.recipes, use.predict, use.evaluate),
):
    app.command()(command)
app.add_typer(data.app, name="data")
app.add_typer(kept.app, name="runs")


def _version(asked: bool) -> None:
    if asked:
        out.print(f"unspur {VERSION}", highlight=False)
        raise typer.Exit


@app.callback()
def unspur(
    version: Annotated[
        bool, typer.Option("--version", help="Say which version this is.", callback=_version)
    ] = False,
) -> None:
    """Remove shortcuts from image classifiers."""


def main() -> None:
    """Run the command line; errors become one message and an exit code."""
    warnings.showwarning = lambda message, *rest: err.print(f"warning: {message}", markup=False)
    try:
        app()
    except Interrupted as stop:
        err.print(str(stop), markup=False)
        sys.exit(130)
    except UnspurError as error:
        err.print(f"{type(error).__name__}: {error}", markup=False, soft_wrap=True)
        sys.exit(1)
