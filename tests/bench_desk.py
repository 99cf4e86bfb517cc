"""A bench on small data for tests of parts, clusters and object stores: recipes, data, commands, tables."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from typer.testing import CliRunner

import unspur
from toys import shapes_set
from unspur import cli
from unspur.data.benchmarks import layout

RECIPE = """
name = "{name}"
plan = "{plan}"
data.name = "folder"
model.options.width = 4
mine.how = "oracle"
select.rule = "last"
prune.batch_norm_batches = 2
checkpoint_every = 10
checkpoint_seconds = 0
"""
SEEDS = (0, 1, 2)


class BenchDesk(NamedTuple):
    """A folder with two recipes of three seeds each, and their data."""

    root: Path

    def command(self, *options: str, store: str = "store") -> list[str]:
        """Return a bench of both recipes."""
        names = ["toy.toml", "ordinary.toml", "--seeds", ",".join(map(str, SEEDS))]
        where = ["--data-root", "bars", "--store", store, "--device", "cpu"]
        return ["bench", *names, *where, *options]

    @property
    def python(self) -> list[str]:
        return [sys.executable]

    @property
    def environment(self) -> dict[str, str]:
        source = str(Path(unspur.__file__).parents[1])
        return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": source}

    def start(self, *arguments: str, **more: str) -> subprocess.Popen[str]:
        """Start a command in a new process."""
        return subprocess.Popen(
            [*self.python, "-m", "unspur", *arguments],
            cwd=self.root,
            env=self.environment | more,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> str:
        """Run a command in this process; return its output."""
        with contextlib.chdir(self.root):
            done = CliRunner().invoke(cli.app, arguments, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return " ".join(done.output.split())

    def numbers(self, name: str) -> list[Any]:
        """Return the table of a bench without times."""
        return without_times(json.loads((self.root / name).read_text())["results"])


def open_desk(root: Path, *, steps: int = 4) -> BenchDesk:
    """Write the recipes and the data."""
    layout.write(shapes_set(samples=120), root / "bars", "1pct")
    lengths = "".join(
        f"{stage}.steps = {steps}\n{stage}.batch = 16\n"
        for stage in ("mine", "pretrain", "prune", "finetune")
    )
    lengths += f"finetune.iterates = [{steps}]\n"
    for name, plan in {"toy": "dcwp", "ordinary": "erm"}.items():
        text = RECIPE.format(name=name, plan=plan) + lengths
        (root / f"{name}.toml").write_text(text)
    return BenchDesk(root)


def without_times(content: Any) -> Any:
    """Return numbers without the entries that differ from run to run: times, threads, runs side by side."""
    if isinstance(content, dict):
        kept = {k: v for k, v in content.items() if k not in TIMES}
        return {k: without_times(v) for k, v in kept.items()}
    return [without_times(each) for each in content] if isinstance(content, list) else content


TIMES = ("seconds", "setup_seconds", "with", "beside", "made")
