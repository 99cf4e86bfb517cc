"""`unspur audit`: find out whether images have a shortcut, and which images contradict it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from .. import recipes, workflow
from ..audit import verdict
from ..audit.audit_cost import audit_cost
from ..audit.power import KINDS, RATES, Power, PowerPlan
from ..audit.power_measurement import PowerMeasurement
from ..audit.result import Audit
from ..data.custom.assembly import UserImages
from ..errors import UsageError
from ..report import explanation_words, power_words, terminal
from ..report.audit_words import next_step
from ..report.run_clock import duration
from ..report.terminal import err
from ..runs import audit_folder
from ..stages.context import Context
from ..stages.place import command_place
from ..stages.suspects import crowded_classes
from .options import (
    Changes,
    Device,
    Model,
    Quiet,
    Seed,
    Size,
    Source,
    StoreAt,
    Threads,
    check_out,
    command_line,
)

USUAL_RATES = ",".join(f"{100 * rate:g}" for rate in RATES)


def audit(
    source: Source,
    out: Annotated[
        Path,
        typer.Option(
            "--out", callback=check_out, help="Folder for the report, the suspects and all numbers."
        ),
    ] = Path("runs/audit"),
    model: Model = "convnet",
    size: Size = 0,
    seed: Seed = 0,
    steps: Annotated[
        int,
        typer.Option(
            min=0,
            show_default=False,
            help="Steps of each training; by default from the number of images.",
        ),
    ] = 0,
    explain: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE",
            help="Table (.csv) with a column `path`; its other columns may explain the suspects.",
        ),
    ] = None,
    power: Annotated[
        bool,
        typer.Option(
            "--power",
            help="Add artificial shortcuts to your images and measure which are found (slow).",
        ),
    ] = False,
    power_kinds: Annotated[
        str, typer.Option(help="Artificial shortcuts to add, separated by commas.")
    ] = ",".join(KINDS),
    power_rates: Annotated[
        str, typer.Option(help="Shares of conflicting images in percent, separated by commas.")
    ] = USUAL_RATES,
    power_repeats: Annotated[
        int,
        typer.Option(
            min=0,
            show_default=False,
            help="Repetitions of each; by default as many as fit into an hour (2 to 10).",
        ),
    ] = 0,
    device: Device = None,
    threads: Threads = None,
    store: StoreAt = None,
    set_: Changes = None,
    quiet: Quiet = False,
) -> None:
    """Find out whether your images have a shortcut, and which images contradict it."""
    began = time.perf_counter()
    plan = _power_plan(power_kinds, power_rates, power_repeats) if power else None
    context = workflow.open_audit(
        UserImages(source),
        command_place(device, store, terminal.show(quiet=quiet), threads),
        model=model,
        size=size,
        seed=seed,
        steps=steps,
        changes=recipes.parse_changes(set_ or []),
    )
    if not quiet:
        _say_cost(context)
    found, page = workflow.carry_out_audit(
        context,
        out,
        command=command_line(),
        source=source,
        table=explain,
        measure=_power_measure(plan, quiet=quiet) if plan else None,
    )
    _say(found, context)
    _say_where(out, page, time.perf_counter() - began)
    _say_next(found, source, out, context.recipe.mine.steps)


def _say_cost(context: Context) -> None:
    cost = audit_cost(context)
    workflow.expect_costs(context, cost.parts)
    trainings = (
        f"At most {cost.trainings} trainings of {cost.steps} steps, usually about "
        f"{duration(cost.seconds)} on {context.device}."
        if cost.trainings
        else "All trainings are stored."
    )
    err.print(
        f"{context.splits.name}: {len(context.splits.train)} images of {len(context.splits.classes)} "
        f"classes. {trainings}",
        markup=False,
        soft_wrap=True,
    )


def _say(found: Audit, context: Context) -> None:
    """Print the verdict, the numbers behind it, and a warning about classes full of suspects."""
    _print(found.finding.full_text)
    terminal.out.print(table(found))
    splits = context.splits
    if crowded := crowded_classes(found.suspects, splits.train.targets, splits.classes):
        _print(crowded)
    if found.explanation is not None:
        _print(" ".join(explanation_words.sentences(found.explanation)))
    if found.power is not None:
        terminal.out.print(power_table(found.power))
        _print(" ".join(power_words.sentences(found.power)))


def _say_where(out: Path, report: Path | None, seconds: float) -> None:
    opened = f"Open {report}. " if report else ""
    _print(
        f"{seconds:.0f} s. {opened}The numbers are in {out / audit_folder.RECORD}, the scores of all images "
        f"in {out / audit_folder.CSV}."
    )


def _say_next(found: Audit, source: str, out: Path, steps: int) -> None:
    """Print the next command to run."""
    conclusion = verdict.conclude(found.evidence)
    following = next_step(conclusion, out=str(out), source=source, steps=steps)
    _print(f"{following.text} {following.command}")


def _print(text: str) -> None:
    terminal.out.print(text, markup=False, soft_wrap=True)


def _power_plan(kinds: str, rates: str, repeats: int) -> PowerPlan:
    """Return the plan of a power measurement from the options."""
    names = tuple(dict.fromkeys(name.strip() for name in kinds.split(",") if name.strip()))
    try:
        shares = tuple(
            dict.fromkeys(float(rate) / 100 for rate in rates.split(",") if rate.strip())
        )
    except ValueError:
        raise UsageError(
            f"--power-rates {rates!r} is not a list of numbers. Write percentages, such as 0.5,2,10."
        ) from None
    return PowerPlan(names, shares, repeats)


def _power_measure(plan: PowerPlan, *, quiet: bool) -> Callable[[Context], Power]:
    """Return a function that measures the power of an audit and prints its progress."""

    def say(text: str) -> None:
        if not quiet:
            err.print(text, markup=False, soft_wrap=True)

    def measure(context: Context) -> Power:
        measurement = PowerMeasurement(context, plan)
        say(power_words.announcement(measurement.cost()))
        return measurement.carry_out(lambda *state: say(power_words.progress(*state)))

    return measure


def power_table(power: Power) -> Table:
    """Return a table of how often artificial shortcuts are found."""
    shown = Table("planted shortcut", "conflicting", "found", "95 % interval")
    for row in power_words.rows(power):
        shown.add_row(*row)
    return shown


def table(found: Audit) -> Table:
    """Return a table of the numbers behind a verdict and their thresholds."""
    shown = Table("measured", "value", "threshold")
    for row in verdict.table_rows(found.evidence):
        shown.add_row(*row)
    return shown
