"""Classes of commands: help without types of flags, near names, an option whose value may be left out."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

from typer.core import TyperCommand, TyperGroup

from ..cluster import LOCAL

# The addresses that may follow --ray; anything else is the next argument.
CLUSTER_ADDRESS = re.compile(r"auto|local|[\w.+-]+://.+|[\w.-]+:\d+")


class PlainCommand(TyperCommand):
    """A command whose help shows no type next to flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_flag_types(super().get_params(ctx))


class ClusterCommand(PlainCommand):
    """A command whose option --ray may have no address."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _with_address(args))


def _with_address(args: list[str]) -> list[str]:
    """Add the address of a local cluster after a --ray without an address."""
    found = []
    for this, following in zip(args, [*args[1:], ""], strict=True):
        found.append(this)
        if this == "--ray" and not CLUSTER_ADDRESS.fullmatch(following):
            found.append(LOCAL)
    return found


class PlainGroup(TyperGroup):
    """A group of commands whose help shows no type next to flags; a misspelt command gets the nearest."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_flag_types(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # typer looks only among commands that are imported already, and its older versions suggest nothing.
        if self.get_command(ctx, args[0]) is None:
            near = " or ".join(map(repr, get_close_matches(args[0], self.list_commands(ctx))))
            if near:
                ctx.fail(f"No such command {args[0]!r}. Did you mean {near}?")
        return super().resolve_command(ctx, args)


def _without_flag_types(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params
