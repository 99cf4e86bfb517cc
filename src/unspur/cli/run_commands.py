"""`unspur run`, `debias` and `demo`: a recipe, your own images, embedded digits; from data to a folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from .. import recipes, workflow
from ..audit.recommendation import Judge
from ..data.custom.assembly import UserImages
from ..data.splits import describe
from ..recipes import budget, own_methods
from ..report import terminal
from ..report.terminal import err, score_table, show, summary
from ..stages import Run
from ..stages.estimate import estimate
from ..stages.place import find_place
from ..workflow import Outcome
from .options import (
    Bias,
    Changes,
    Device,
    Method,
    Model,
    Out,
    Prefer,
    Pretrained,
    Quiet,
    Root,
    Seed,
    Size,
    Source,
    StoreAt,
    check_out,
    command_line,
)


def run(
    name: Annotated[str, typer.Argument(help="A recipe by name (see `unspur recipes`) or file.")],
    seed: Annotated[int | None, typer.Option(help="Seed of all training.")] = None,
    device: Device = None,
    out: Out = None,
    store: StoreAt = None,
    data_root: Root = None,
    set_: Changes = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and how long it takes.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Run a recipe: mine, pretrain, prune, fine-tune, evaluate."""
    seeded = {} if seed is None else {"seed": seed}
    recipe = recipes.load(name, {**recipes.parse_changes(set_ or []), **seeded})
    place = find_place(device, store, show(quiet=quiet))
    opened = workflow.open_recipe(recipe, place, root=data_root)
    if dry_run:
        _say_plan(opened)
        return
    _finish(opened, out or Path("runs") / f"{recipe.name.replace('/', '-')}-seed{recipe.seed}")


def debias(
    source: Source,
    out: Annotated[Path, typer.Option("--out", callback=check_out, help="Folder for the result.")],
    model: Model = "resnet18",
    init: Annotated[str, typer.Option(help="Weights to start from: .safetensors or .pth.")] = "",
    pretrained: Pretrained = False,
    size: Size = 0,
    seed: Seed = 0,
    device: Device = None,
    store: StoreAt = None,
    set_: Changes = None,
    suspects: Annotated[
        Path | None, typer.Option(help="The suspects.csv of a run, corrected by you.")
    ] = None,
    bias: Bias = None,
    method: Method = own_methods.DEFAULT,
    prefer: Prefer = "balanced",
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Do not ask first whether there is a shortcut.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how long it takes.")] = False,
    quiet: Quiet = False,
) -> None:
    """Remove the shortcut from a classifier of your own images, if there is one."""
    images = UserImages(source, bias=bias)
    opened = workflow.open_debias(
        images,
        find_place(device, store, show(quiet=quiet)),
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
        _finish(opened, out, source=images.source)


def demo(
    out: Annotated[Path, typer.Option(callback=check_out, help="Folder for the result.")] = Path(
        "runs/demo"
    ),
    store: StoreAt = None,
    quiet: Quiet = False,
) -> None:
    """Run the whole chain on embedded data, on the CPU, in about a minute."""
    place = find_place("cpu", store, show(quiet=quiet))
    _finish(workflow.open_recipe(recipes.load("demo"), place), out)


def _finish(opened: Run, folder: Path, *, source: str = "") -> None:
    """Run the plan, write the folder, say what came of it."""
    began = time.perf_counter()
    opened.check()
    opened.settle()
    stored = opened.stored
    outcome = workflow.carry_out(
        opened, folder, command=command_line(), source=source, scored=_say_scores
    )
    _say_where(outcome, folder, stored, time.perf_counter() - began)


def _say_scores(outcome: Outcome) -> None:
    """Print the scores, the findings, and size and speed."""
    terminal.out.print(score_table(outcome.numbers))
    for line in [*summary(outcome.numbers), *_size_lines(outcome)]:
        terminal.out.print(line, markup=False)


def _size_lines(outcome: Outcome) -> list[str]:
    """Return size and speed before and after, where something was pruned."""
    found = outcome.size_and_speed
    by_channel = outcome.context.recipe.prune.unit == "channel"
    return found.lines(on_channels=by_channel) if found else []


def _say_where(outcome: Outcome, folder: Path, stored: list[str], seconds: float) -> None:
    reused = [name for name in stored if name in outcome.results]
    if reused:
        terminal.out.print(f"Already stored, not run again: {', '.join(reused)}.", markup=False)
    opened = f" Open {outcome.page}." if outcome.page else ""
    text = f"{seconds:.0f} s. Everything is in {folder}/.{opened}"
    terminal.out.print(text, markup=False, soft_wrap=True)


def _say_plan(opened: Run, *, dry_run: bool = True) -> None:
    """Show every stage: is it stored, and what would it cost?"""
    table = Table("stage", "steps", "stored", "about", "disk")
    rows = estimate(opened)
    for row in rows:
        cost = ("–", "–") if row.stored else (f"{row.seconds:.0f} s", terminal.size(row.disk))
        table.add_row(row.stage, str(row.steps), "yes" if row.stored else "no", *cost)
    terminal.out.print(table)
    seconds = sum(row.seconds for row in rows) + _say_judge(opened)
    end = "; nothing was run." if dry_run else "."
    text = f"about {_duration(seconds)} on {opened.context.device}{end}"
    terminal.out.print(text, markup=False)


def _say_judge(opened: Run) -> float:
    """Say what the judge costs, if one is asked; return the seconds."""
    judge = opened.context.judge
    if not isinstance(judge, Judge):
        return 0.0
    cost = judge.cost()
    terminal.out.print(
        f"First an audit asks if there is a shortcut: at most {cost.trainings} trainings of {cost.steps} "
        f"steps, about {_duration(cost.seconds)}. --anyway leaves it out.",
        markup=False,
        soft_wrap=True,
    )
    return cost.seconds


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} s"
