"""Dependencies between folders have one direction, and the core imports without any extra.

Each folder says in its `__init__` what it may import ("May import: errors, noise."); the package's own
docstring says it for the flat files. These tests read those statements and nothing else.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import unspur

ROOT = Path(unspur.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
FOLDERS = sorted(p.parent.name for p in ROOT.glob("*/__init__.py"))
FLAT = sorted(p.stem for p in ROOT.glob("*.py") if not p.stem.startswith("__"))


def name_of(path):
    """`methods.erm` for methods/erm.py, `methods` for its __init__."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imports(path):
    """Return the modules that a file imports: ours as `methods.erm`, others as `torch.nn`."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (("other", alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield "other", node.module, node
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - (node.level - 1)]
            base = (*base, *(node.module or "").split(".")) if node.module else base
            if node.module:
                yield "ours", ".".join(base), node
            for alias in node.names:  # `from . import masks` names a module, or something in one
                if is_module(inner := (*base, alias.name)):
                    yield "ours", ".".join(inner), node


def is_module(parts):
    where = ROOT.joinpath(*parts)
    return where.with_suffix(".py").is_file() or (where / "__init__.py").is_file()


def ours(path):
    return {name for kind, name, _ in imports(path) if kind == "ours"}


def top(name):
    return name.partition(".")[0]


def stated(path, pattern=r"May import: ([\w, ]+)\."):
    """Return the names that a docstring allows."""
    text = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split())
    return [
        frozenset(name for name in found.split(", ") if name != "nothing")
        for found in re.findall(pattern, text)
    ]


def allowed():
    """Return what each folder and each flat file may import."""
    known = {}
    for folder in FOLDERS:
        (known[folder],) = stated(ROOT / folder / "__init__.py")
    text = " ".join(
        (ast.get_docstring(ast.parse((ROOT / "__init__.py").read_text())) or "").split()
    )
    for names, found in re.findall(r"([\w, ]+) may import: ([\w, ]+)\.", text):
        for name in re.findall(r"\w+", names.replace(" and ", " ")):
            known[name] = frozenset(re.findall(r"\w+", found)) - {"nothing", "and"}
    return known


ALLOWED = allowed()


def test_imports_are_parsed_correctly():
    assert {"data.batches", "methods.erm", "training.losses"} <= ours(ROOT / "methods" / "lff.py")
    assert {"training.capture", "training.method"} <= ours(ROOT / "training" / "loop.py")


def test_every_folder_and_every_flat_file_says_what_it_may_import():
    assert set(FOLDERS) | set(FLAT) == ALLOWED.keys()
    known = set(FOLDERS) | set(FLAT)
    for name, names in ALLOWED.items():
        assert names <= known - {name}, name


def test_allowed_imports_have_no_cycle():
    left = {name: set(names) for name, names in ALLOWED.items()}
    while free := [name for name, names in left.items() if not names & left.keys()]:
        for name in free:
            del left[name]
    assert not left, f"these allow each other in a circle: {sorted(left)}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_imports_only_what_its_folder_states(path):
    folder = top(name_of(path))
    if folder in ("", "__main__"):
        return  # the package's `__init__` imports all public names
    found = {top(name) for name in ours(path)} - {folder, ""}
    assert found <= ALLOWED[folder], sorted(found - ALLOWED[folder])


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_unused_import_is_allowed(folder):
    files = [path for path in FILES if top(name_of(path)) == folder]
    needed = {top(name) for path in files for name in ours(path)}
    assert ALLOWED[folder] <= needed, sorted(ALLOWED[folder] - needed)


def test_masks_on_weights_know_nothing_of_channels():
    for path in [p for p in FILES if name_of(p).startswith("masks.")]:
        if path.stem != "attaching" and "channels" not in path.parts:
            assert not [name for name in ours(path) if "channels" in name], path


def test_no_name_of_a_file_is_used_twice():
    names = Counter(path.stem for path in FILES if not path.stem.startswith("__"))
    folders = Counter(path.parent.name for path in FILES if path.stem == "__init__")
    assert [name for name, count in names.items() if count > 1] == []
    assert sorted(names.keys() & (folders.keys() - {"unspur"})) == []


def test_no_public_class_name_is_used_twice():
    names = Counter(
        node.name
        for path in FILES
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_modules_have_no_import_cycle():
    graph = {}
    for path in FILES:
        deferred = {
            inner.lineno
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.FunctionDef)
            or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
            for inner in ast.walk(node)
            if isinstance(inner, ast.ImportFrom)
        }
        found = {
            n for kind, n, node in imports(path) if kind == "ours" and node.lineno not in deferred
        }
        graph[name_of(path)] = found - {name_of(path)}
    for name in list(graph):  # a folder's __init__ imports its files
        graph[name] -= {folder for folder in graph[name] if name.startswith(f"{folder}.")}
    while free := [name for name, names in graph.items() if not names & graph.keys()]:
        for name in free:
            del graph[name]
    assert not graph, f"these import each other in a circle: {sorted(graph)}"


def test_functions_and_files_stay_short():
    lengths = sorted(
        node.end_lineno - node.lineno + 1
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    )
    assert lengths[len(lengths) // 2] <= 8
    assert lengths[int(0.9 * len(lengths))] <= 20
    assert [p.name for p in FILES if p.read_text().count("\n") > 300] == []


# What must be installed


def declared():
    """Return the packages of an installation without extras, by their import names."""
    project = ROOT.parents[1] / "pyproject.toml"
    if not project.is_file():
        pytest.skip("not run from a source tree")
    names = tomllib.loads(project.read_text())["project"]["dependencies"]
    plain = {name.partition(">")[0].strip() for name in names}
    return {{"pillow": "PIL"}.get(name, name) for name in plain}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_only_core_dependencies_are_imported_at_the_top(path):
    """An extra is imported inside the function that needs it."""
    tree = ast.parse(path.read_text())
    at_top = {id(node) for node in tree.body}
    for kind, name, node in imports(path):
        if kind == "other" and id(node) in at_top:
            assert top(name) in declared() | set(sys.stdlib_module_names), name


def test_importing_loads_no_extra():
    extras = (
        "torchvision",
        "timm",
        "matplotlib",
        "sklearn",
        "scipy",
        "pandas",
        "onnx",
        "jinja2.ext",
    )
    code = f"import sys, unspur, unspur.cli; print([m for m in {extras} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_works_without_extras():
    """A finder that refuses the extras simulates an environment without them."""
    code = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torchvision", "timm", "matplotlib", "sklearn", "onnx"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Refuse())
import unspur
print(sorted(set(unspur.__all__) - set(dir(unspur))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
