"""The list of commands: their names, one sentence each, and their files.

A file is imported when its command is used, so that `unspur --help` does not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import typer

from .help_text import PlainCommand, PlainGroup


class CommandPlace(NamedTuple):
    """The file of a command in this folder, and the first sentence of its docstring.

    `function` is the name of its function, if that is not the name of the command. A file may set the class
    of its command as COMMAND.
    """

    file: str
    help: str
    function: str = ""


COMMANDS = {
    "run": CommandPlace(
        "run_commands", "Run a recipe: mine, pretrain, prune, fine-tune, evaluate."
    ),
    "debias": CommandPlace(
        "run_commands",
        "Train a classifier on your own images, and remove the shortcut if there is one.",
    ),
    "demo": CommandPlace(
        "run_commands", "Run all stages on embedded data, on the CPU, in about a minute."
    ),
    "compare": CommandPlace(
        "compare_command",
        "Train several methods on your own images, and compare their scores.",
    ),
    "bench": CommandPlace(
        "bench_command",
        "Run recipes with several seeds, and write tables; stored stages are reused.",
    ),
    "audit": CommandPlace(
        "audit_command",
        "Find out whether your images have a shortcut, and which images contradict it.",
    ),
    "report": CommandPlace(
        "report_command",
        "Write the report of a run or an audit: verdict, numbers, suspects, pictures, settings.",
    ),
    "review": CommandPlace(
        "review_command",
        "Review the suspects in the browser: confirm, clear, relabel or exclude them, then debias.",
    ),
    "probe": CommandPlace(
        "probe_command",
        "Test a suspicion: change images, and measure how the predictions change.",
    ),
    "check": CommandPlace(
        "check_command",
        "Fail if new data have a shortcut, a model loses accuracy, or a class gains suspects.",
        "check_data",
    ),
    "export": CommandPlace(
        "export_command",
        "Write a run's model as files to deploy, and check each file against the model.",
    ),
    "reproduce": CommandPlace(
        "reproduce_command",
        "Reproduce tables and figures of the paper: run what is missing, and write their pages.",
    ),
    "methods": CommandPlace(
        "list_commands",
        "List the methods: the supervision they need, how many networks they train, their source.",
    ),
    "theory": CommandPlace(
        "list_commands",
        "Compute the paper's bounds and simulations, and write a page, figures and all numbers.",
    ),
    "predict": CommandPlace(
        "predict_command", "Classify images, and print path, class and probability as CSV."
    ),
    "evaluate": CommandPlace(
        "evaluate_command",
        "Score the debiased and the ordinary model of a run on labelled images.",
    ),
    "data": CommandPlace("data_commands", "Make, check and show the benchmark data sets."),
    "recipes": CommandPlace("recipe_commands", "List the built-in recipes, or show one."),
    "runs": CommandPlace("store_commands", "List or remove the stored results of stages."),
}


class LazyGroup(PlainGroup):
    """A group that lists its commands by name and imports only the one that is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command for the list, with a name and a help text; it cannot be run."""
        if cmd_name not in COMMANDS:
            return None
        return PlainCommand(cmd_name, help=COMMANDS[cmd_name].help)

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
