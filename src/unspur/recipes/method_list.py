"""The list of methods for `unspur methods`, stored in a file, because importing the methods imports torch.

`python -m unspur.recipes.method_list` writes the file after a change; a test checks that it is up to date.
"""

from __future__ import annotations

import json
from importlib import metadata, resources
from pathlib import Path
from typing import NamedTuple

FILE = "methods.json"


class ListedMethod(NamedTuple):
    """The description of a method, and whether it can be chosen for own images."""

    name: str
    supervision: str
    networks: str
    source: str
    own_images: bool


def method_rows() -> list[ListedMethod]:
    """Return all methods; those of installed packages are imported."""
    if metadata.entry_points(group="unspur.methods"):
        return current_rows()
    text = (resources.files(__package__) / FILE).read_text("utf-8")
    return [ListedMethod(*row) for row in json.loads(text)]


def current_rows() -> list[ListedMethod]:
    """Return the current rows, from the methods themselves."""
    from ..methods import all_methods
    from .own_methods import own_methods

    own = own_methods()
    return [
        ListedMethod(name, entry.supervision, entry.networks, entry.source, name in own)
        for name, entry in all_methods().items()
    ]


def as_text(rows: list[ListedMethod]) -> str:
    """Return the content of the file, a line for each method."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return f"[\n{lines}\n]\n"


if __name__ == "__main__":
    Path(__file__).with_name(FILE).write_text(as_text(current_rows()), "utf-8")
