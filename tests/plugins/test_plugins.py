"""Installed packages add methods, data sets and networks by entry points; a broken one does no harm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import unspur
from unspur.data.benchmarks import registry
from unspur.errors import DataError
from unspur.methods import catalogue, erm, lc
from unspur.models.builder import BUILTIN, networks

PACKAGE = Path(__file__).parent / "tiny_plugin"
Points = Mapping[str, Mapping[str, str]]
RECIPE = """
plan = "tiny-erm"
[data]
name = "tiny-bars"
seed = 1
[model]
name = "tiny-net"
[tiny-erm]
steps = 20
smoothing = 0.2
"""


def install(folder: Path, name: str, module: str, points: Points) -> None:
    """Install a module into a folder: write the module and its metadata as pip would."""
    about = folder / f"{name}-0.1.dist-info"
    about.mkdir(parents=True)
    (folder / f"{name}.py").write_text(module)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
    lines = [
        line
        for group, entries in points.items()
        for line in (f"[{group}]", *(f"{key} = {value}" for key, value in entries.items()))
    ]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two installed packages: the tiny plugin, and one that cannot be imported."""
    folder = tmp_path_factory.mktemp("site")
    points = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]["entry-points"]
    install(folder, "tiny_plugin", (PACKAGE / "tiny_plugin.py").read_text(), points)
    broken = {"unspur.methods": {"lost": "lost_plugin:ENTRY"}}
    install(folder, "lost_plugin", "import a_module_that_is_not_there", broken)
    return folder


def python(site: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Python with the packages of a folder installed."""
    path = os.pathsep.join(map(str, (site, Path(unspur.__file__).parents[1])))
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "160", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done


def test_an_added_method_is_listed_and_a_broken_one_is_a_warning(site: Path) -> None:
    done = python(site, "-m", "unspur", "methods")
    assert "tiny-erm" in done.stdout
    assert "the tests" in done.stdout
    assert "dcwp" in done.stdout
    said = " ".join(done.stderr.split())
    assert "warning: unspur.methods: 'lost' (lost_plugin:ENTRY) is left out" in said
    assert "ModuleNotFoundError: No module named 'a_module_that_is_not_there'" in said
    assert "Update or uninstall the package lost_plugin." in said


def test_an_added_data_set_is_listed(site: Path) -> None:
    shown = python(site, "-m", "unspur", "data", "list").stdout
    assert "tiny-bars" in shown
    assert "added by an installed package" in shown
    assert "cmnist" in shown
    counts = python(site, "-m", "unspur", "data", "check", "tiny-bars").stdout
    assert "216 aligned and 24 conflicting training images" in counts


def test_a_recipe_of_additions_runs(site: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(RECIPE)
    where = ("--out", tmp_path / "out", "--store", tmp_path / "store", "--device", "cpu", "-q")
    python(site, "-m", "unspur", "run", tmp_path / "tiny.toml", *where)
    left = {path.name for path in (tmp_path / "out").iterdir()}
    assert left >= {"model.safetensors", "scores.json", "recipe.toml", "report.html", "run.json"}
    recipe = tomllib.loads((tmp_path / "out" / "recipe.toml").read_text())
    assert recipe["tiny-erm"]["smoothing"] == 0.2
    assert recipe["tiny-erm"]["batch"] == 32  # the method's default
    assert json.loads((tmp_path / "out" / "model.json").read_text())["builder"] == {
        "name": "tiny-net",
        "options": {},
    }
    (made,) = (tmp_path / "store").glob("tiny-erm-*")
    assert made.is_dir()
    code = f"import unspur; print(type(unspur.load({str(tmp_path / 'out')!r}).model).__name__)"
    assert python(site, "-c", code).stdout.strip() == "TinyNet"


def test_an_added_method_passes_the_public_checks(site: Path) -> None:
    code = (
        "import tiny_plugin, unspur.testing as t; t.check_method(tiny_plugin.METHOD); print('ok')"
    )
    assert python(site, "-c", code).stdout.strip() == "ok"


# -- broken plugins -----------------------------------------------------------------------------------

SMOOTH = replace(lc.ENTRY, name="smooth", stages=("smooth",))


@pytest.mark.parametrize(
    ("name", "entry", "problem"),
    [
        ("smooth", SMOOTH, ""),
        ("smooth", replace(erm.ENTRY, name="smooth"), ""),
        ("smooth", "smooth", "it is str, not a MethodEntry"),
        ("other", SMOOTH, "the method is 'smooth'"),
        ("lc", lc.ENTRY, "there is a built-in method 'lc'"),
        (
            "my.lc",
            replace(SMOOTH, name="my.lc", stages=("my.lc",)),
            "letters, digits, - and _ only",
        ),
        (
            "../lc",
            replace(SMOOTH, name="../lc", stages=("../lc",)),
            "letters, digits, - and _ only",
        ),
        ("mine", replace(SMOOTH, name="mine", stages=("mine",)), "a built-in stage 'mine'"),
        ("smooth", replace(SMOOTH, plan="dcwp"), "a built-in plan 'dcwp' with other stages"),
        ("smooth", replace(SMOOTH, stages=("smoth",)), "stages that do not exist: smoth"),
        ("smooth", replace(SMOOTH, stages=("mine",)), "its plan does not have that stage"),
    ],
)
def test_a_method_that_cannot_be_added(name: str, entry: object, problem: str) -> None:
    said = catalogue.added_method_problem(name, entry)
    assert problem in said
    assert bool(problem) is bool(said)


def test_built_in_methods_are_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "from unspur.methods import lc\nENTRY = lc.ENTRY\nNONE = None\n"
    points = {
        "unspur.methods": {"lc": "odd_plugin:ENTRY", "none": "odd_plugin:NONE"},
        "unspur.datasets": {"cmnist": "odd_plugin:ENTRY", "none": "odd_plugin:NONE"},
        "unspur.models": {"convnet": "odd_plugin:ENTRY", "none": "odd_plugin:NONE"},
    }
    install(tmp_path, "odd_plugin", module, points)
    monkeypatch.syspath_prepend(tmp_path)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        methods = catalogue.all_methods.__wrapped__()
        loaders = registry.loaders.__wrapped__()
        known = networks.__wrapped__()
    assert methods == {entry.name: entry for entry in catalogue.BUILT_IN}
    assert (loaders, known) == (registry.DATASETS, BUILTIN)
    reasons = [str(each.message).partition("left out: ")[2] for each in said]
    assert sorted(reason.partition(". Update")[0] for reason in reasons) == [
        "it is NoneType, not a MethodEntry",
        "it is NoneType, not a function of `classes`",
        "it is NoneType, not a function of a Request",
        "there is a built-in data set 'cmnist'",
        "there is a built-in method 'lc'",
        "there is a built-in network 'convnet'",
    ]


def test_the_same_name_from_two_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("first_plugin", "second_plugin"):
        module = "def load(request): return 'no splits'\n"
        install(tmp_path, name, module, {"unspur.datasets": {"twice": f"{name}:load"}})
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(UserWarning, match="another installed package has added this name"):
        found = registry.loaders.__wrapped__()
    monkeypatch.setattr(registry, "loaders", lambda: found)
    with pytest.raises(DataError, match="the loader of twice returned str, not Splits"):
        registry.load("twice")
