"""The command line: nothing here that a Python user could not do too; a file has one command or a few.

May import: audit, comparison, data, deploy, errors, methods, recipes, report, reproduce, run_api, runs,
stages, store, training, version, workflow.
"""

from __future__ import annotations

import sys
import warnings
from typing import Annotated

import typer

from ..errors import Interrupted, UnspurError
from ..report.terminal import err, out
from ..version import VERSION
from . import (
    audit_command,
    bench_command,
    compare_command,
    data_commands,
    evaluate_command,
    export_command,
    list_commands,
    predict_command,
    recipe_commands,
    report_command,
    reproduce_command,
    run_commands,
    store_commands,
)
from .help_text import PlainCommand, PlainGroup

app = typer.Typer(
    cls=PlainGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for command in (
    *(
        run_commands.run,
        run_commands.debias,
        run_commands.demo,
        compare_command.compare,
        bench_command.bench,
        audit_command.audit,
        report_command.report,
        export_command.export,
    ),
    *(
        reproduce_command.reproduce,
        list_commands.methods,
        list_commands.theory,
        predict_command.predict,
        evaluate_command.evaluate,
    ),
):
    app.command(cls=PlainCommand)(command)
app.add_typer(data_commands.app, name="data")
app.add_typer(recipe_commands.app, name="recipes")
app.add_typer(store_commands.app, name="runs")


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
