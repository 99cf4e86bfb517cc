"""`unspur check`: fail if a change of the data or the model introduces a shortcut."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from ..check.alarms import CheckOutcome
from ..check.baseline import CheckSettings
from ..check.checking import CheckInput, CheckResult, check, exit_code
from ..check.ci_output import (
    annotation,
    append_summary,
    junit_xml,
    markdown_summary,
    notice,
    write_output,
)
from ..data.custom.sources import GroupSource
from ..errors import Interrupted, UnspurError
from ..report import terminal
from ..stages.place import find_place
from .options import (
    Device,
    Pattern,
    Quiet,
    RunModel,
    Seed,
    Size,
    Source,
    StoreAt,
    Trust,
    command_line,
)

Format = Literal["auto", "text", "github"]


def check_data(
    source: Source,
    baseline: Annotated[
        Path, typer.Option(help="File with the baseline; the first check writes it.")
    ] = Path("check.json"),
    update: Annotated[
        bool, typer.Option("--update", help="Accept the current data and model as the baseline.")
    ] = False,
    run: Annotated[
        Path | None, typer.Option(help="Folder of a run, to score its model on the data, too.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Column of the table with the groups. Default: group.")
    ] = None,
    pattern: Pattern = None,
    junit: Annotated[Path | None, typer.Option(help="Write the outcome as JUnit XML.")] = None,
    summary: Annotated[
        Path | None,
        typer.Option(help="Write the outcome as Markdown; by default to $GITHUB_STEP_SUMMARY."),
    ] = None,
    format_: Annotated[
        Format,
        typer.Option(
            "--format", help="text, or github for annotations; auto detects GitHub Actions."
        ),
    ] = "auto",
    seed: Seed = 0,
    steps: Annotated[
        int,
        typer.Option(
            min=0,
            show_default=False,
            help="Steps of each training; by default from the number of images.",
        ),
    ] = 0,
    size: Size = 0,
    model: RunModel = None,
    device: Device = None,
    store: StoreAt = None,
    trust: Trust = False,
    quiet: Quiet = False,
) -> None:
    """Fail if new data have a shortcut, a model loses accuracy, or a class gains suspects.

    Exit code 0: no alarm; 1: an alarm, with its reason; 2: the check itself failed.
    """
    began = time.perf_counter()
    inputs = CheckInput(
        source,
        CheckSettings(seed=seed, steps=steps, size=size),
        run,
        GroupSource(group or "", pattern or ""),
        trust,
        model,
    )
    try:
        place = find_place(device, store, terminal.show(quiet=quiet))
        result = check(inputs, baseline, place, update=update)
        _write(result.outcome, junit, summary, time.perf_counter() - began)
    except UnspurError as error:
        if not isinstance(error, Interrupted):
            error.exit_code = 2  # 1 is reserved for alarms
        raise
    _say(result, baseline, github=is_github(format_))
    raise typer.Exit(exit_code(result))


def is_github(format_: Format) -> bool:
    """Return whether to print annotations for GitHub Actions."""
    found = os.environ.get("GITHUB_ACTIONS") == "true"
    return format_ == "github" or (format_ == "auto" and found)


def _write(outcome: CheckOutcome, junit: Path | None, summary: Path | None, seconds: float) -> None:
    """Write the files that were asked for: JUnit XML and a Markdown summary."""
    if junit is not None:
        write_output(junit, junit_xml(outcome, seconds))
    if summary is not None:
        write_output(summary, markdown_summary(outcome).encode())
    elif step := os.environ.get("GITHUB_STEP_SUMMARY"):
        append_summary(Path(step), markdown_summary(outcome))


def _say(result: CheckResult, baseline: Path, *, github: bool) -> None:
    outcome = result.outcome
    for alarm in outcome.alarms:
        _print(annotation(alarm) if github else f"FAILED: {alarm.reason}")
    for note in outcome.notes:
        _print(notice(note) if github else note)
    _print(_last_line(result, baseline))


def _last_line(result: CheckResult, baseline: Path) -> str:
    if result.is_new:
        return f"The baseline was written to {baseline}. Keep it under version control."
    if result.is_idle:
        return f"Nothing has changed since {baseline} was written."
    if result.outcome.alarms:
        return f"To accept this change: {command_line()} --update"
    return "Passed."


def _print(text: str) -> None:
    terminal.out.print(text, markup=False, highlight=False, soft_wrap=True)
