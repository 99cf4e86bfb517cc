"""The reference of all commands, read from the program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from unspur.cli.lazy_group import COMMANDS, load_command

INTRODUCTION = """# Commands

Every command with all of its arguments and options, as the program itself describes them.
`unspur COMMAND --help` shows the same in the terminal.
"""


def reference() -> str:
    """Return the page."""
    sections = [text for name in COMMANDS for text in _sections(load_command(name), name, 2)]
    return "\n".join([INTRODUCTION, *sections])


def _sections(command: Any, name: str, level: int) -> Iterator[str]:
    """Yield the text of a command, then of those below it."""
    context = typer.Context(command, info_name=f"unspur {name}")
    usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
    yield f"{'#' * level} unspur {name}\n\n{_plain(command.help or '')}\n\n```text\n{usage}\n```\n"
    for kind, title in (("argument", "Argument"), ("option", "Option")):
        if rows := [*_rows(command, context, kind)]:
            yield "\n".join([f"| {title} | Meaning | Value |", "| --- | --- | --- |", *rows, ""])
    for child, below in getattr(command, "commands", {}).items():
        yield from _sections(below, f"{name} {child}", level + 1)


def _rows(command: Any, context: Any, kind: str) -> Iterator[str]:
    """Yield one line of a table for each argument or option."""
    for param in command.get_params(context):
        record = param.get_help_record(context) if param.param_type_name == kind else None
        if record is not None and record[0] != "--help":
            meaning, value = re.fullmatch(r"(.*?)(?:\s\s\[(.*)\])?", record[1], re.DOTALL).groups()
            yield f"| `{record[0]}` | {_cell(meaning)} | {_cell(value or '')} |"


def _cell(text: str) -> str:
    return " ".join(_plain(text).replace("|", "\\|").split())


def _plain(text: str) -> str:
    """Return text of which Markdown reads nothing as markup."""
    return re.sub(r"([*_<\[\]])", r"\\\1", text)
