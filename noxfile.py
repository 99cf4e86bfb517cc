"""Sessions over the versions of Python and torch that we claim to support.

    nox -l                      # list the sessions
    nox -s minimal-3.11         # run one of them
    nox -s 'tests-3.12(oldest)'

The oldest torch is the one of pyproject.toml, the newest the one of constraints.txt.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import nox

ROOT = Path(__file__).parent
PYTHONS = ["3.11", "3.12", "3.13"]
STAGES = ("mine", "pretrain", "adapt", "prune", "finetune")

nox.options.sessions = ["minimal", "build"]
nox.options.error_on_missing_interpreters = True


def oldest_torch() -> str:
    """Return the oldest torch that pyproject.toml allows, in its newest patch."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (torch,) = (name for name in project["dependencies"] if name.startswith("torch>="))
    return f"{torch.removeprefix('torch>=')}.*"


def newest_torch() -> str:
    """Return the torch that the project is developed with."""
    (version,) = re.findall(r"^torch==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M)
    return str(version)


TORCHES = [
    nox.param(oldest_torch(), id="oldest"),
    nox.param(newest_torch(), id="newest"),
]


@nox.session(python=PYTHONS)
@nox.parametrize("torch", TORCHES)
def tests(session: nox.Session, torch: str) -> None:
    """Run the tests with the oldest and with the newest torch; arguments after `--` go to pytest."""
    session.install("-e", ".[dev]", f"torch=={torch}")
    session.run("pytest", *session.posargs)


@nox.session(python=PYTHONS)
def minimal(session: nox.Session) -> None:
    """Install the core without any extra, import every public name and train each stage for one step."""
    session.install(".", "-c", "constraints.txt")
    session.run("python", "-c", "import unspur; [getattr(unspur, n) for n in unspur.__all__]")
    session.run("unspur", "--help", silent=True)
    steps = ["--set=mine.how=oracle", *(f"--set={stage}.steps=1" for stage in STAGES)]
    folder = Path(session.create_tmp())
    places = ["--out", str(folder / "run"), "--store", str(folder / "store")]
    session.run("unspur", "run", "demo", *steps, *places, "--device", "cpu", "--quiet")


@nox.session(python=False)
def build(session: nox.Session) -> None:
    """Build the archives, check and install them."""
    session.run("make", "dist", external=True)


@nox.session(python=False)
def docs(session: nox.Session) -> None:
    """Build the site."""
    session.run("make", "docs", external=True)
