"""The commands: their names and one sentence each, and where they are; a file is imported when it is used.

So `unspur --help` does not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import typer

from .help_text import PlainCommand, PlainGroup


class CommandPlace(NamedTuple):
    """The file of a command in this folder, and what it does in one sentence, as its docstring says.

    Its function has the name of the command unless said otherwise. A file may name the kind of its command as
    COMMAND.
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
        "Remove the shortcut from a classifier of your own images, if there is one.",
    ),
    "demo": CommandPlace(
        "run_commands", "Run all stages on embedded digits, on the CPU, in about a minute."
    ),
    "compare": CommandPlace(
        "compare_command",
        "Train several methods on your own images and show their scores beside each other.",
    ),
    "bench": CommandPlace(
        "bench_command",
        "Run recipes with several seeds (what is stored is not run again) and write tables.",
    ),
    "audit": CommandPlace(
        "audit_command",
        "Say whether there is a shortcut in your images, and which of them contradict it.",
    ),
    "report": CommandPlace(
        "report_command",
        "Write the page about a run or an audit: verdict, numbers, suspects, pictures, settings.",
    ),
    "review": CommandPlace(
        "review_command",
        "Go through the suspects in the browser: confirm, clear, relabel or exclude them, then debias.",
    ),
    "probe": CommandPlace(
        "probe_command",
        "Test a suspicion: change images and measure how the predictions of the model change.",
    ),
    "check": CommandPlace(
        "check_command",
        "Fail if new data bring a shortcut or more suspects, or if a model loses accuracy.",
        "check_data",
    ),
    "export": CommandPlace(
        "export_command",
        "Write a run's model as files to deploy; each is checked against the model.",
    ),
    "reproduce": CommandPlace(
        "reproduce_command",
        "Run what is missing of the paper's tables and figures, and write their pages.",
    ),
    "methods": CommandPlace(
        "list_commands",
        "List the methods: the supervision they need, how many networks they train, their source.",
    ),
    "theory": CommandPlace(
        "list_commands",
        "Compute the paper's bounds and simulations: one page, figures, every number.",
    ),
    "predict": CommandPlace(
        "predict_command", "Classify images and print a CSV table of path, class and probability."
    ),
    "evaluate": CommandPlace(
        "evaluate_command",
        "Score a run's model, and the ordinary one beside it, on labelled images.",
    ),
    "data": CommandPlace("data_commands", "Make, check and show the benchmark data sets."),
    "recipes": CommandPlace("recipe_commands", "List the built-in recipes, or show one."),
    "runs": CommandPlace("store_commands", "List and delete stored results."),
}


class LazyGroup(PlainGroup):
    """A group that knows its commands by name and imports the one that is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command that has a name and a help text, and cannot be run."""
        if cmd_name not in COMMANDS:
            return None
        return PlainCommand(cmd_name, help=COMMANDS[cmd_name].help)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        return name, load_command(str(name)), rest


def load_command(name: str) -> Any:
    """Import a command, or a group of commands, and return what runs it."""
    module = import_module(f"{__package__}.{COMMANDS[name].file}")
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False)
        kind = getattr(module, "COMMAND", PlainCommand)
        app.command(name, cls=kind)(getattr(module, COMMANDS[name].function or name))
    command = typer.main.get_command(app)
    command.name = name
    return command
