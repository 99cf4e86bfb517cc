"""The list of commands: their names, one sentence each, and their files.

A file is imported when its command is used, so that `unspur --help` does not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import typer

from .help_text import PlainCommand, PlainGroup

# The headings of `unspur --help`.
START = "Start here"
CONTINUE = "A finished run or audit"
EXPERIMENTS = "Experiments"


class CommandPlace(NamedTuple):
    """The file of a command in this folder, the first sentence of its docstring, and its heading.

    `function` is the name of its function, if that is not the name of the command. A file may set the class
    of its command as COMMAND.
    """

    file: str
    help: str
    heading: str
    function: str = ""


COMMANDS = {
    "demo": CommandPlace(
        "run_commands",
        "Train and debias a small network on coloured digits, on the CPU, in about half a minute.",
        START,
    ),
    "audit": CommandPlace(
        "audit_command",
        "Find out whether your images have a shortcut, and which images contradict it.",
        START,
    ),
    "debias": CommandPlace(
        "run_commands",
        "Train a classifier on your own images, and remove the shortcut if there is one.",
        START,
    ),
    "compare": CommandPlace(
        "compare_command",
        "Train several methods on your own images, and compare their scores.",
        START,
    ),
    "report": CommandPlace(
        "report_command",
        "Write the report of a run or an audit: verdict, numbers, suspects, pictures, settings.",
        CONTINUE,
    ),
    "review": CommandPlace(
        "review_command",
        "Review the suspects in the browser: confirm, clear, relabel or exclude them, then debias.",
        CONTINUE,
    ),
    "predict": CommandPlace(
        "predict_command",
        "Classify images, and print path, class and probability as CSV.",
        CONTINUE,
    ),
    "evaluate": CommandPlace(
        "evaluate_command",
        "Score the debiased and the ordinary model of a run on labelled images.",
        CONTINUE,
    ),
    "probe": CommandPlace(
        "probe_command",
        "Test a suspicion: change images, and measure how the predictions change.",
        CONTINUE,
    ),
    "export": CommandPlace(
        "export_command",
        "Write a run's model as files to deploy, and check each file against the model.",
        CONTINUE,
    ),
    "check": CommandPlace(
        "check_command",
        "Fail if new data have a shortcut, a model loses accuracy, or a class gains suspects.",
        CONTINUE,
        "check_data",
    ),
    "runs": CommandPlace(
        "store_commands", "List or remove the stored results of stages.", CONTINUE
    ),
    "recipes": CommandPlace(
        "recipe_commands",
        "List the built-in recipes, which are complete settings of experiments, or show one.",
        EXPERIMENTS,
    ),
    "run": CommandPlace(
        "run_commands",
        "Run a recipe: mine, pretrain, prune, fine-tune, evaluate.",
        EXPERIMENTS,
    ),
    "bench": CommandPlace(
        "bench_command",
        "Run recipes with several seeds, and write tables; stored stages are reused.",
        EXPERIMENTS,
    ),
    "methods": CommandPlace(
        "list_commands",
        "List the methods: the supervision they need, how many networks they train, their source.",
        EXPERIMENTS,
    ),
    "data": CommandPlace(
        "data_commands",
        "Make, check and show the benchmark data sets; check or pack your own images.",
        EXPERIMENTS,
    ),
    "reproduce": CommandPlace(
        "reproduce_command",
        "Reproduce tables and figures of the paper: run what is missing, and write their pages.",
        EXPERIMENTS,
    ),
    "theory": CommandPlace(
        "list_commands",
        "Compute the paper's bounds and simulations, and write a page, figures and all numbers.",
        EXPERIMENTS,
    ),
}


class LazyGroup(PlainGroup):
    """A group that lists its commands by name and imports only the one that is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command for the list, with a name and a help text; it cannot be run."""
        if cmd_name not in COMMANDS:
            return None
        place = COMMANDS[cmd_name]
        return PlainCommand(cmd_name, help=place.help, rich_help_panel=place.heading)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        return name, load_command(str(name)), rest


def load_command(name: str) -> Any:
    """Import a command, or a group of commands, and return its click object."""
    module = import_module(f"{__package__}.{COMMANDS[name].file}")
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False)
        kind = getattr(module, "COMMAND", PlainCommand)
        app.command(name, cls=kind)(getattr(module, COMMANDS[name].function or name))
    command = typer.main.get_command(app)
    command.name = name
    return command
