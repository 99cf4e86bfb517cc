"""Python examples of all pages: they compile, and the names and arguments of unspur in them exist."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import unspur

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXAMPLES = [
    pytest.param(code, id=f"{page.relative_to(ROOT)}:{number}")
    for page in PAGES
    for number, code in enumerate(BLOCK.findall(page.read_text("utf-8")))
]


def problems(code: str) -> Iterator[str]:
    """Yield what an example uses of unspur that does not exist."""
    known: dict[str, Any] = {"unspur": unspur}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "unspur":
            for each in node.names:
                if (found := member(importlib.import_module(node.module or ""), each.name)) is None:
                    yield f"{node.module} has no {each.name}"
                known[each.asname or each.name] = found
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and resolve(node.value, known) is unspur:
            if member(unspur, node.attr) is None:
                yield f"unspur has no {node.attr}"
        elif isinstance(node, ast.Call) and callable(function := resolve(node.func, known)):
            yield from unknown_arguments(node, function)


def member(owner: Any, name: str) -> Any:
    """Return an attribute or a submodule; None if there is neither."""
    if (found := getattr(owner, name, None)) is not None or not inspect.ismodule(owner):
        return found
    try:
        return importlib.import_module(f"{owner.__name__}.{name}")
    except ModuleNotFoundError:
        return None


def resolve(node: ast.AST, known: dict[str, Any]) -> Any:
    """Return what a name or a dotted name of unspur stands for; None for anything else."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute) and (owner := resolve(node.value, known)) is not None:
        return member(owner, node.attr)
    return None


def unknown_arguments(call: ast.Call, function: Any) -> Iterator[str]:
    parameters = inspect.signature(function).parameters
    if not any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        named = [each.arg for each in call.keywords if each.arg]
        yield from (f"{ast.unparse(call.func)} has no {n}=" for n in named if n not in parameters)


@pytest.mark.parametrize("code", EXAMPLES)
def test_examples_use_only_what_exists(code: str) -> None:
    assert list(problems(code)) == []


@pytest.mark.parametrize(
    "code",
    ["unspur.nothing", "unspur.debias('photos', colour=1)", "from unspur.data import nothing"],
)
def test_what_does_not_exist_is_found(code: str) -> None:
    assert len(list(problems(code))) == 1
