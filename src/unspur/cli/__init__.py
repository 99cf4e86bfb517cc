"""The command line: nothing here that a Python user could not do too; a file has one command or a few.

May import: audit, boundary, check, cluster, data, deploy, errors, integrations, parallel, probe, probe_api,
recipes, report, reproduce, review, run_api, runs, stages, store, training, version, workflow.
"""

from __future__ import annotations

import io
import sys
import traceback
import warnings
from typing import Annotated

import typer

from ..boundary import explain_system
from ..errors import UnspurError
from ..report.console import err, out
from ..version import VERSION
from .lazy_group import LazyGroup
from .process_scope import several_processes

app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(value: bool) -> None:
    if value:
        out.print(f"unspur {VERSION}", highlight=False)
        raise typer.Exit


@app.callback()
def unspur(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version)
    ] = False,
) -> None:
    """Remove shortcuts from image classifiers.

    A shortcut predicts the label in the training images and fails elsewhere, such as a colour.
    """


def main() -> None:
    """Run the command line; an error becomes a message and an exit code: 2, 1, or 130 after Ctrl-C."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="surrogateescape")  # names of files are printed byte for byte
    warnings.showwarning = lambda message, *rest: err.print(f"warning: {message}", markup=False)
    try:
        with explain_system(), several_processes(sys.argv[1:]):
            app()
    except UnspurError as error:
        _say(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        _say_line("stopped. Run the same command again to continue.")
        sys.exit(130)
    except Exception as error:
        traceback.print_exc()
        _say_line(
            f"{type(error).__name__}: this is a bug in unspur. Please report the lines above."
        )
        sys.exit(1)


def _say(error: UnspurError) -> None:
    """Print an error, and below it the traceback of the user's code that caused it."""
    name = "" if error.exit_code == 130 else f"{type(error).__name__}: "
    _say_line(f"{name}{error}")
    if error.traceback:
        _say_line(error.traceback)


def _say_line(text: str) -> None:
    err.print(text, markup=False, soft_wrap=True, highlight=False)
