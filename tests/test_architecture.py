"""The walks of docs/architecture.md are short; every hop exists and is called by a hop above it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from unspur.cli.lazy_group import COMMANDS

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
LIMITS = {1: 30, 2: 12, 3: 30}  # a walk has fewer hops
ROW = re.compile(r"\| (\d+) \| \[[^\]]+\]\(\.\./(src/[^)]+)\) \| `([\w.]+)` \|")
Function = ast.FunctionDef


@dataclass(frozen=True)
class Hop:
    number: int
    file: Path
    name: str

    @property
    def called(self) -> str:
        """The name that a caller uses: for a constructor, the name of its class."""
        owner, _, last = self.name.rpartition(".")
        return owner if last in ("__init__", "__post_init__") else last


def walks() -> dict[int, tuple[int, list[Hop]]]:
    """Return the number of hops in the heading and the hops of the table, by walk."""
    found = {}
    for text in re.split(r"^### Walk ", PAGE, flags=re.MULTILINE)[1:]:
        heading = re.match(r"(\d+): .*, (\d+) hops\n", text)
        assert heading, text.partition("\n")[0]
        hops = [Hop(int(n), ROOT / file, name) for n, file, name in ROW.findall(text)]
        found[int(heading[1])] = int(heading[2]), hops
    return found


WALKS = walks()


@cache
def functions(file: Path) -> dict[str, Function]:
    """Return the functions and methods of a file by name, such as `fit` and `Loop.advance`."""
    tree = ast.parse(file.read_text("utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    found = {node.name: node for node in tree.body if isinstance(node, Function)}
    return found | {
        f"{cls.name}.{node.name}": node
        for cls in classes
        for node in cls.body
        if isinstance(node, Function)
    }


def mentioned(*nodes: ast.AST) -> set[str]:
    """Return the names and attributes that code uses."""
    inner = [each for node in nodes for each in ast.walk(node)]
    names = {each.id for each in inner if isinstance(each, ast.Name)}
    return names | {each.attr for each in inner if isinstance(each, ast.Attribute)}


@cache
def module_level(file: Path) -> tuple[ast.stmt, ...]:
    """Return the statements of a file outside its functions and classes."""
    body = ast.parse(file.read_text("utf-8")).body
    return tuple(node for node in body if not isinstance(node, Function | ast.ClassDef))


def passes_on(node: Function) -> bool:
    """Return whether a function is a single statement after its docstring."""
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return len(body) == 1


def steps_between(file: Path) -> Iterator[tuple[str, set[str]]]:
    """Yield names of a file that lead to others: functions that only call others, attributes, stages."""
    for name, node in functions(file).items():
        if passes_on(node):
            yield name.rpartition(".")[2], mentioned(node)
        for each in ast.walk(node):
            if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Attribute):
                yield each.targets[0].attr, mentioned(each.value)
    for statement in module_level(file):
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            yield statement.targets[0].id, mentioned(statement.value)


def reachable(hops: list[Hop], last: int) -> set[str]:
    """Return the names that the first hops call, also through single statements of the walk's files."""
    above = hops[:last]
    names = {name for hop in above for name in mentioned(functions(hop.file)[hop.name])}
    names |= (
        mentioned(*module_level(above[0].file)) | COMMANDS.keys()
    )  # which the program begins with
    between = [pair for file in {hop.file for hop in hops} for pair in steps_between(file)]
    between.append(("method", {"forward"}))  # torch calls `forward` of a module
    while more := {n for name, leads in between if name in names for n in leads} - names:
        names |= more
    return names


def test_the_walks_are_parsed_correctly():
    assert WALKS.keys() == LIMITS.keys()
    assert WALKS[1][1][1] == Hop(2, ROOT / "src/unspur/cli/run_commands.py", "debias")


@pytest.mark.parametrize("walk", LIMITS)
def test_a_walk_is_numbered_and_short(walk):
    stated, hops = WALKS[walk]
    assert [hop.number for hop in hops] == list(range(1, stated + 1))
    assert stated < LIMITS[walk]


@pytest.mark.parametrize("walk", LIMITS)
def test_every_hop_is_a_function_of_its_file(walk):
    missing = [hop for hop in WALKS[walk][1] if hop.name not in functions(hop.file)]
    assert not missing


@pytest.mark.parametrize("walk", LIMITS)
def test_every_hop_is_called_by_one_above_it(walk):
    hops = WALKS[walk][1]
    loose = [hop for n, hop in enumerate(hops) if n and hop.called not in reachable(hops, n)]
    assert not loose


def test_the_functions_between_hops_are_counted_too():
    stated = re.search(r"walks\s+have\s+(\d+),\s+(\d+)\s+and\s+(\d+)\s+functions", PAGE)
    assert stated
    for number, text in enumerate(re.split(r"^### Walk ", PAGE, flags=re.MULTILINE)[1:]):
        through = re.findall(r"\| through ([^:]+):", text)
        between = sum(names.count("`") // 2 for names in through)
        assert int(stated[number + 1]) == WALKS[number + 1][0] + between


def test_a_missing_hop_is_detected():
    """Without `add_stages` nothing calls `_complete_work`."""
    hops = [hop for hop in WALKS[1][1] if hop.name != "add_stages"]
    place = next(n for n, hop in enumerate(hops) if hop.name == "_complete_work")
    assert "_complete_work" not in reachable(hops, place)
