"""Dependencies point one way, and the core imports without any extra.

The layers, from the ground up; a module may import modules of its own layer or of lower ones:

    errors, version
    noise, losses, features, metrics, runtime, models, store, reach, data, sampling, masks
    method, capture, job, train
    methods, mining, watchers, suspects, views, thresholds, evidence, judging
    settings, recipe, lab, evaluation
    chain, baselines, stages, inspection, estimate, budget, auditing
    bundle, published, tables, bench, console, report, delivery, deploy, reproduce
    api, cli
"""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import unspur

ROOT = Path(unspur.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
CORE = {
    *("errors", "noise", "channels", "mask_layers", "masks"),
    *("losses", "features", "sampling", "metrics"),
    *("method", "job", "train", "capture", "runtime", "store", "data"),
}
AROUND = {
    "methods",
    "chain",
    "baselines",
    "stages",
    "evaluation",
    "lab",
    "settings",
    "recipe",
    "api",
    "cli",
    "bench",
    "console",
}
LAYERS = (
    {"errors", "version", "theory"},
    {"noise", "losses", "features", "metrics", "runtime", "models", "store"}
    | {"reach", "data", "sampling", "channels", "packed", "mask_layers", "masks", "kernels"},
    {"method", "capture", "job", "train"},
    {"methods", "mining", "watchers", "suspects", "views", "thresholds", "evidence", "judging"},
    {"settings", "recipe", "lab", "evaluation"},
    {"chain", "slimming", "baselines", "stages", "inspection", "estimate", "budget"} | {"auditing"},
    {"bundle", "published", "tables", "bench", "console", "report", "delivery", "deploy"}
    | {"reproduce"},
    {"api", "cli"},
)


def name_of(path):
    """`methods.erm` for methods/erm.py, `methods` for its __init__."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imports(path):
    """The modules a file imports, ours as `methods.erm`, those of others as `torch.nn`."""
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


def files_of(names):
    return [path for path in FILES if top(name_of(path)) in names]


def test_the_imports_are_read_right():
    assert {"data.source", "methods.erm", "losses"} <= ours(ROOT / "methods" / "amplified.py")
    assert {"masks", "capture", "data.source"} <= ours(ROOT / "train.py")
    assert "stages" in ours(ROOT / "api.py")
    assert {"method", "methods.dcwp"} <= ours(ROOT / "methods" / "__init__.py")


def test_every_module_has_its_layer():
    known = set().union(*LAYERS)
    assert {top(name_of(path)) for path in FILES} - {"", "__main__"} <= known
    assert sum(map(len, LAYERS)) == len(known)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_point_down(path):
    name = top(name_of(path))
    if name in ("", "__main__"):
        return  # the front door names everything
    level = next(i for i, layer in enumerate(LAYERS) if name in layer)
    allowed = set().union(*LAYERS[: level + 1])
    assert {top(imported) for imported in ours(path)} <= allowed


def test_there_is_no_circle():
    """Even inside a layer. What is imported for annotations alone does not count."""
    graph = {}
    for path in FILES:
        lines = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                lines |= {inner.lineno for inner in ast.walk(node) if hasattr(inner, "lineno")}
        found = (
            n for kind, n, node in imports(path) if kind == "ours" and node.lineno not in lines
        )
        graph.setdefault(top(name_of(path)), set()).update(map(top, found))
    graph.pop("", None)
    left = {name: targets - {name} for name, targets in graph.items()}
    while free := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in free:
            del left[name]
    assert not left, f"these import each other in a circle: {sorted(left)}"


@pytest.mark.parametrize("path", files_of(CORE), ids=name_of)
def test_the_core_knows_nothing_around_it(path):
    assert not {top(name) for name in ours(path)} & AROUND


@pytest.mark.parametrize("path", files_of({"methods"}), ids=name_of)
def test_methods_know_no_other_method_but_erm(path):
    """ERM is a base to build on: the model, its prediction, one player. LfF and DisEnt share a ledger."""
    if path.name == "__init__.py":
        return
    others = {name for name in ours(path) if top(name) == "methods"}
    assert others <= {"methods.erm", "methods.difficulty"}
    assert path.stem not in ("erm", "difficulty") or not others
    assert {top(name) for name in ours(path)} <= CORE | {"methods", "models"}


@pytest.mark.parametrize("path", files_of({"data"}), ids=name_of)
def test_data_knows_no_training(path):
    assert {top(name) for name in ours(path)} <= {"data", "errors", "noise"}


def test_theory_knows_nothing_of_ours():
    for path in files_of({"theory"}):
        assert {top(name) for name in ours(path)} <= {"theory"}


# What must be installed


def declared():
    """The packages a plain installation brings, by the names they are imported under."""
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


def test_importing_brings_in_no_extra():
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


def test_importing_works_where_no_extra_is_installed():
    """A finder that refuses the extras stands for an environment without them."""
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
