"""The reference of the Python interface: which names, in which order; mkdocstrings reads their docstrings."""

from __future__ import annotations

from itertools import groupby

import unspur

INTRODUCTION = """# Python

Everything that can be imported from `unspur` itself, grouped by the file that defines it. Other names of
deeper modules are not part of the interface and may change.
"""
FURTHER = {"Errors": "unspur.errors", "Checks for methods of your own": "unspur.testing"}


def reference() -> str:
    """Return the page."""
    names = [name for name in unspur.__all__ if not name.startswith("_")]
    home = {name: getattr(unspur, name).__module__ for name in names}
    order = ["unspur.api", "unspur.run_api", "unspur.probe_api", *sorted(set(home.values()))]
    names.sort(key=lambda name: (order.index(home[name]), name.lower()))
    sections = [
        _section(module, [*members])
        for module, members in groupby(names, home.__getitem__)
        if module not in FURTHER.values()
    ]
    return "\n".join([INTRODUCTION, *sections, *(_module(*each) for each in FURTHER.items())])


def _section(module: str, names: list[str]) -> str:
    head = f"## {', '.join(names)}\n"
    return "\n".join([head, *(_entry(f"{module}.{name}", f"unspur.{name}") for name in names)])


def _entry(path: str, shown: str) -> str:
    return f"::: {path}\n    options:\n      heading: {shown}\n      heading_level: 3\n"


def _module(title: str, path: str) -> str:
    options = "    options:\n      show_root_heading: false\n      heading_level: 2\n"
    return f"## {title}\n\n::: {path}\n{options}"
