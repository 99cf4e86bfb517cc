"""The list of methods that `unspur methods` prints, stored in a file, because the methods import torch.

Run `python -m unspur.recipes.method_list` to write the file after a change; a test compares the two.
"""

from __future__ import annotations

import json
from importlib import metadata, resources
from pathlib import Path
from typing import NamedTuple

FILE = "methods.json"


class ListedMethod(NamedTuple):
    """A description of a method, and whether it can be chosen for own images."""

    name: str
    supervision: str
    networks: str
    source: str
    own_images: bool


def method_rows() -> list[ListedMethod]:
    """Return every method; if installed packages add methods, all are imported."""
    if metadata.entry_points(group="unspur.methods"):
        return current_rows()
    text = (resources.files(__package__) / FILE).read_text("utf-8")
    return [ListedMethod(*row) for row in json.loads(text)]


def current_rows() -> list[ListedMethod]:
    """Return the rows for the methods in the code."""
    from ..methods import all_methods
    from .own_methods import own_methods

    own = own_methods()
    return [
        ListedMethod(name, entry.supervision, entry.networks, entry.source, name in own)
        for name, entry in all_methods().items()
    ]


def as_text(rows: list[ListedMethod]) -> str:
    """Return the content of the file, with one line for each method."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return f"[\n{lines}\n]\n"


if __name__ == "__main__":
    Path(__file__).with_name(FILE).write_text(as_text(current_rows()), "utf-8")
