"""The package runs no code from data, no shell, and does not use the network."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import unspur
from toys import shapes_set
from unspur.cli import lazy_group
from unspur.data.benchmarks import layout

ROOT = Path(unspur.__file__).parent
SCRIPT = ROOT.parents[1] / "scripts" / "audit_dependencies.py"

# Unsafe calls

FORBIDDEN = {
    "eval",
    "exec",
    "os.system",
    "os.popen",
    "pickle.load",
    "pickle.loads",
    "marshal.loads",
}
FORBIDDEN |= {"torch.jit.load", "torch.hub.load", "joblib.load", "yaml.load", "tempfile.mktemp"}

ASKED_FOR = {
    "models/builder.py": ["exec"]
}  # the file of `file.py:builder`, which a user names or trusts


def unsafe(tree: ast.AST) -> Iterator[str]:
    """Yield the calls that run code from data, or a shell."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            options = {option.arg: ast.unparse(option.value) for option in node.keywords}
            loads = name == "torch.load" and options.get("weights_only") != "True"
            if (
                name in FORBIDDEN
                or loads
                or "True" in (options.get("shell"), options.get("allow_pickle"))
            ):
                yield f"{node.lineno}: {name}"


@pytest.mark.parametrize(
    "code",
    [
        "eval(x)",
        "torch.load(p)",
        "torch.load(p, weights_only=False)",
        "run(c, shell=True)",
        "os.system(c)",
    ],
)
def test_unsafe_calls_are_found(code: str) -> None:
    assert list(unsafe(ast.parse(code)))
    assert not list(unsafe(ast.parse("torch.load(p, weights_only=True)")))


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_no_file_has_unsafe_calls(path: Path) -> None:
    found = [call.partition(": ")[2] for call in unsafe(ast.parse(path.read_text()))]
    assert found == ASKED_FOR.get(str(path.relative_to(ROOT)), [])


@pytest.mark.skipif(not SCRIPT.is_file(), reason="not run from a source tree")
def test_unchecked_dependencies_are_reported() -> None:
    nowhere = dict.fromkeys(("HTTPS_PROXY", "https_proxy"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, env={**os.environ, **nowhere}
    )
    assert done.returncode == 0, done.stderr
    assert "dependencies: NOT CHECKED, pip" in done.stdout or "pypi.org cannot" in done.stdout


# The network

PROGRAM = """
import json, sys
from pathlib import Path

reached = []

def forbid(event, arguments):
    if event in ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto", "urllib.Request"):
        reached.append([event, repr(arguments)])
        raise PermissionError("no network in this test")

sys.addaudithook(forbid)
from unspur import cli

codes = {}
for line in Path("commands.json").read_text().splitlines():
    arguments = json.loads(line)
    sys.argv = ["unspur", *arguments]
    try:
        cli.main()
    except SystemExit as end:
        codes[" ".join(arguments)] = end.code or 0
Path("outcome.json").write_text(json.dumps([codes, reached]))
"""
RECIPE = """
name = "bars"
data.name = "folder"
model.options.width = 4
mine.how = "oracle"
select.rule = "last"
prune.batch_norm_batches = 2
""" + "".join(
    f"{stage}.steps = 3\n{stage}.batch = 16\n"
    for stage in ("mine", "pretrain", "prune", "finetune")
)
WHERE = ["--data-root", "data", "--store", "store", "--device", "cpu", "-q"]
SHORT = [f"--set={stage}.steps=2" for stage in ("mine", "pretrain", "adapt", "prune", "finetune")]
SHORT += ["--model=convnet", "--set=model.options.width=4", "--set=prune.batch_norm_batches=1"]
COMMANDS = [
    ["run", "bars.toml", *WHERE, "--out", "out"],
    ["bench", "bars.toml", *WHERE, "--out", "bench.json"],
    ["report", "out", "--store", "store"],
    ["export", "out", "--slim", "--packed", "--images", "data/test"],
    ["predict", "out", "data/test/0"],
    ["evaluate", "out", "data"],
    ["probe", "out", "data", "--hide", "border", "--hide", "region", "0,0,2,2", "--images", "40"],
    [
        "debias",
        "photos",
        "--out",
        "mine",
        "--anyway",
        "--store",
        "store",
        "--device",
        "cpu",
        *SHORT,
        "-q",
    ],
    [
        *("compare", "photos", "--methods", "erm,jtt", "--out", "compared", "--store", "store"),
        *("--device", "cpu", *SHORT, "-q"),
    ],
    ["runs", "list", "--store", "store"],
    ["runs", "rm", "--all", "--store", "store"],
    ["recipes"],
    ["recipes", "list", "cmnist/*"],
    ["recipes", "show", "demo"],
    ["data", "list"],
    ["data", "pack", "photos", "packed"],
    ["data", "index", "packed"],
    ["methods"],
    ["reproduce", "ablation", "--no-run", "--quiet", "--results", "r", "--pages", "p"],
]
LONG = [
    [
        "audit",
        "photos",
        "--out",
        "asked",
        "--store",
        "store",
        "--steps",
        "2",
        "--device",
        "cpu",
        "-q",
    ],
    ["check", "photos", "--store", "store", "--steps", "2", "--device", "cpu", "-q"],
    ["theory", "--quick", "--out", "theory", "-q"],
]
ALIKE = {"demo"}  # the same as `run` with its own recipe, and takes a minute
LISTENS = {"review"}  # only to this computer: tests/review/test_web.py


@pytest.mark.parametrize(
    "commands", [COMMANDS, pytest.param(LONG, marks=pytest.mark.slow)], ids=["quick", "long"]
)
def test_no_command_uses_the_network(tmp_path: Path, commands: list[list[str]]) -> None:
    layout.write(shapes_set(samples=160), tmp_path / "data", "1pct")
    for kind in ("align", "conflict"):
        for folder in (tmp_path / "data" / "1pct" / kind).iterdir():
            (tmp_path / "photos" / folder.name).mkdir(parents=True, exist_ok=True)
            for file in folder.iterdir():
                os.link(file, tmp_path / "photos" / folder.name / f"{kind}-{file.name}")
    (tmp_path / "bars.toml").write_text(RECIPE)
    (tmp_path / "commands.json").write_text("\n".join(map(json.dumps, commands)))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    codes, reached = json.loads((tmp_path / "outcome.json").read_text())
    assert reached == []
    assert {name: code for name, code in codes.items() if code} == {}, done.stderr
    assert len(codes) == len(commands)


def test_every_command_is_tried() -> None:
    known = {command[0] for command in COMMANDS + LONG} | ALIKE | LISTENS
    assert lazy_group.COMMANDS.keys() <= known
