"""`unspur run`, `debias` and `demo`: run a recipe, debias your own images, or run the demonstration."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.table import Table

from .. import recipes, workflow
from ..data.custom.assembly import UserImages
from ..data.splits import describe
from ..integrations.trackers import Tracker, open_tracker
from ..parallel import is_first
from ..recipes import budget, own_methods
from ..report import terminal
from ..report.run_clock import duration
from ..report.terminal import err, score_table, show, summary
from ..runs.result_folder import refuse_folder
from ..stages import Run
from ..stages.place import command_place
from ..workflow import Announcement, Outcome
from .options import (
    Bias,
    Changes,
    Device,
    LogTo,
    Method,
    Out,
    OwnModel,
    Prefer,
    Pretrained,
    Quiet,
    Root,
    Seed,
    Size,
    Source,
    StoreAt,
    Suspects,
    Threads,
    check_out,
    command_line,
)


def run(
    name: Annotated[
        str,
        typer.Argument(metavar="RECIPE", help="Name (`unspur recipes` lists them) or TOML file."),
    ],
    seed: Annotated[
        int | None, typer.Option(help="Seed of training; by default that of the recipe.")
    ] = None,
    device: Device = None,
    threads: Threads = None,
    out: Out = None,
    store: StoreAt = None,
    data_root: Root = None,
    set_: Changes = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Train nothing; print the stages and how long they take."),
    ] = False,
    log_to: LogTo = None,
    quiet: Quiet = False,
) -> None:
    """Run a recipe: mine, pretrain, prune, fine-tune, evaluate."""
    seeded = {} if seed is None else {"seed": seed}
    recipe = recipes.load(name, {**recipes.parse_changes(set_ or []), **seeded})
    folder = out or Path("runs") / f"{recipe.name.replace('/', '-')}-seed{recipe.seed}"
    refuse_folder(folder, "run")  # before the data are read
    with _tracker(log_to, dry_run=dry_run) as on_log:
        place = command_place(device, store, show(quiet=quiet), threads, on_log)
        opened = workflow.open_recipe(recipe, place, root=data_root)
        if dry_run:
            _say_plan(opened)
            return
        _finish(opened, folder, quiet=quiet)


def debias(
    source: Source,
    out: Annotated[Path, typer.Option("--out", callback=check_out, help="Folder for the results.")],
    model: OwnModel = None,
    init: Annotated[str, typer.Option(help="Weights to start from: .safetensors or .pth.")] = "",
    pretrained: Pretrained = False,
    size: Size = 0,
    seed: Seed = 0,
    device: Device = None,
    threads: Threads = None,
    store: StoreAt = None,
    set_: Changes = None,
    suspects: Suspects = None,
    bias: Bias = None,
    method: Method = own_methods.DEFAULT,
    prefer: Prefer = "balanced",
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Debias in any case: no audit before, no check after.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Train nothing; estimate how long it takes.")
    ] = False,
    log_to: LogTo = None,
    quiet: Quiet = False,
) -> None:
    """Train a classifier on your own images, and remove the shortcut if there is one."""
    images = UserImages(source, bias=bias)
    refuse_folder(out, "run", images.source)  # before the images are read
    with _tracker(log_to, dry_run=dry_run) as on_log:
        opened = workflow.open_debias(
            images,
            command_place(device, store, show(quiet=quiet), threads, on_log),
            model=model,
            init=init,
            pretrained=pretrained,
            size=size,
            settings={
                **budget.preference(prefer),
                "seed": seed,
                **recipes.parse_changes(set_ or []),
            },
            suspects=suspects,
            method=method,
            anyway=anyway,
        )
        err.print(describe(opened.context.splits), markup=False)
        _say_plan(opened, dry_run=dry_run)
        if not dry_run:
            _finish(opened, out, source=images.source, quiet=quiet)


def _tracker(log_to: str | None, *, dry_run: bool) -> AbstractContextManager[Tracker | None]:
    """Open the tracker that --log-to names; none for a dry run, and only in the first process."""
    return open_tracker(log_to) if log_to and not dry_run and is_first() else nullcontext()


def demo(
    out: Annotated[Path, typer.Option(callback=check_out, help="Folder for the results.")] = Path(
        "runs/demo"
    ),
    store: StoreAt = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Train and debias a small network on coloured digits, on the CPU, in about half a minute."""
    refuse_folder(out, "run")
    place = command_place("cpu", store, show(quiet=quiet), threads)
    _finish(workflow.open_recipe(recipes.load("demo"), place), out, quiet=quiet)


def _finish(opened: Run, folder: Path, *, source: str = "", quiet: bool = False) -> None:
    """Run the plan, write the folder and print the results."""
    began = time.perf_counter()
    opened.check()
    opened.ask_judge()
    if opened.advice is not None and not quiet:  # the trainings that follow can take hours
        err.print(f"The audit is done. {opened.advice.text}", markup=False, soft_wrap=True)
    stored = opened.stored
    outcome = workflow.carry_out(
        opened, folder, command=command_line(), source=source, on_scores=_say_scores
    )
    _say_where(outcome, folder, stored, time.perf_counter() - began)


def _say_scores(outcome: Outcome) -> None:
    """Print the scores, the findings, and size and speed."""
    terminal.out.print(score_table(outcome.numbers))
    for line in [*summary(outcome.numbers), *_size_lines(outcome)]:
        terminal.out.print(line, markup=False)


def _size_lines(outcome: Outcome) -> list[str]:
    """Return sentences on size and speed before and after, if something was pruned."""
    found = outcome.size_and_speed
    by_channel = outcome.context.recipe.prune.unit == "channel"
    return found.lines(on_channels=by_channel) if found else []


def _say_where(outcome: Outcome, folder: Path, stored: list[str], seconds: float) -> None:
    reused = [name for name in stored if name in outcome.results]
    if reused:
        terminal.out.print(f"Reused from the store: {', '.join(reused)}.", markup=False)
    opened = f" Open {outcome.page}." if outcome.page else ""
    text = f"{seconds:.0f} s. Everything is in {folder}/.{opened}"
    terminal.out.print(text, markup=False, soft_wrap=True)


def _say_plan(opened: Run, *, dry_run: bool = True) -> None:
    """Print every stage, whether it is stored, and its expected costs."""
    table = Table("stage", "steps", "stored", "time", "disk")
    found = workflow.announce(opened)
    for row in found.stages:
        cost = ("–", "–") if row.stored else (duration(row.seconds), terminal.size(row.disk))
        steps = f"{row.steps_left} of {row.steps}" if row.is_resumed else str(row.steps)
        table.add_row(row.stage, steps, "yes" if row.stored else "no", *cost)
    terminal.out.print(table)
    _say_judge(found)
    end = "; nothing was run." if dry_run else "."
    text = f"In total about {duration(found.seconds)} on {_where(opened)}{_if_clean(found)}{end}"
    terminal.out.print(text, markup=False, soft_wrap=True)


def _if_clean(found: Announcement) -> str:
    """Say how long a run takes without a shortcut; "" if no audit could say so, or it takes as long."""
    if found.audit is None:
        return ""
    usual, least = duration(found.ordinary_seconds), duration(found.least_seconds)
    if usual == duration(found.seconds):
        return ""
    soon = f", or {least} if it soon sees that there is none" if least != usual else ""
    return f", {usual} if the audit finds no shortcut{soon}"


def _where(opened: Run) -> str:
    """Return the name of the device, with the number of threads on a CPU."""
    if opened.context.device.type != "cpu":
        return str(opened.context.device)
    threads = torch.get_num_threads()
    return f"cpu with {threads} thread{'s' * (threads > 1)}"


def _say_judge(found: Announcement) -> None:
    """Print the costs of the judge, if there is one."""
    if found.audit is None:
        return
    cost = (
        f"at most {found.audit.trainings} trainings of {found.audit.steps} steps, usually about "
        f"{duration(found.audit.seconds)}"
        if found.audit.trainings
        else "all its trainings are stored"
    )
    text = f"First an audit checks whether there is a shortcut: {cost}. --anyway skips it."
    terminal.out.print(text, markup=False, soft_wrap=True)
