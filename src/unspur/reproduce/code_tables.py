"""Tables about the code for pages of prose: the methods of the catalogue, the folders of the package."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from ..methods import MethodEntry
from ..methods.catalogue import BUILT_IN

PACKAGE = Path(__file__).parents[1]


def method_table() -> str:
    """Return every built-in method: its plan, the supervision it needs, its networks, its source."""
    rows = [_method_row(entry) for entry in BUILT_IN]
    return _markdown(["method", "name", "stages", "supervision", "networks", "source"], rows)


def _method_row(entry: MethodEntry) -> list[str]:
    stages = " → ".join(entry.stages)
    named = f"`{entry.name}`"
    return [entry.title, named, stages, entry.supervision, entry.networks, entry.source]


def folder_table(link: str = "../src/unspur") -> str:
    """Return the table of the package's folders: contents and allowed imports, from their `__init__`."""
    rows = [
        [f"[{name}/]({link}/{name})", _first_line(text), _may_import(text)]
        for name, text in _docstrings()
    ]
    return _markdown(["folder", "what it holds", "may import"], rows)


def _docstrings() -> Iterator[tuple[str, str]]:
    for path in sorted(PACKAGE.glob("*/__init__.py")):
        text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        yield path.parent.name, text


def _first_line(text: str) -> str:
    return text.partition("\n")[0].rstrip(".")


def _may_import(text: str) -> str:
    found = re.search(r"May import: ([\w, ]+)\.", " ".join(text.split()))
    return found[1] if found else "nothing"


def _markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
