"""Commands in separate processes that share a store and a few folders, and the outcomes they may have."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from unspur.data.benchmarks import layout
from unspur.testing.tiny import shapes_set

TESTS = Path(__file__).parents[1]
STEPS = "".join(
    f"{stage}.steps = 12\n{stage}.batch = 16\n"
    for stage in ("mine", "pretrain", "prune", "finetune")
)
RECIPE = f"""
name = "bars"
data.name = "folder"
model.options.width = 4
mine.how = "oracle"
select.rule = "last"
prune.batch_norm_batches = 2
log_every = 3
checkpoint_every = 4
checkpoint_seconds = 0
{STEPS}"""
FINE = (0, 1, 2, -signal.SIGKILL)
# Runs a command with a clock that jumps by days between two readings.
JUMPING = """
import random, time
real, jump = time.time, random.Random(1)
time.time = lambda: real() + jump.uniform(-1e6, 1e6)
time.time_ns = lambda: int(time.time() * 1e9)
from unspur.cli import main
main()
"""


def prepare(root: Path) -> None:
    """Write data, a recipe and a few image files."""
    layout.write(shapes_set(samples=60), root / "data", "1pct")
    (root / "bars.toml").write_text(RECIPE)


def start(root: Path, *arguments: str, jumping: bool = False) -> subprocess.Popen[str]:
    """Start a command of unspur."""
    program = ["-c", JUMPING] if jumping else ["-m", "unspur"]
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    settings = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.Popen(
        [sys.executable, *program, *arguments],
        cwd=root,
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_arguments(out: str = "out", *, seed: int = 0) -> list[str]:
    where = ["--data-root", "data", "--device", "cpu", "--store", "store", "--out", out]
    return ["run", "bars.toml", *where, "--seed", str(seed), "-q"]


def end(process: subprocess.Popen[str], seconds: float = 900) -> tuple[int, str]:
    """Wait for a command; return its exit code and its output."""
    said, _ = process.communicate(timeout=seconds)
    return process.returncode, said


def is_raw(code: int, said: str) -> bool:
    """Return whether a command ended with a raw traceback or an unexpected exit code."""
    return code not in FINE or "this is a bug in unspur" in said or "Traceback" in said


def random_command(rng: random.Random) -> list[str]:
    """Return a random command on the shared store and folders."""
    out = rng.choice(["out", "out", "other"])
    image = rng.choice(["data/1pct/align", "data/valid", "bars.toml", "nowhere"])
    return rng.choice(
        [
            *[run_arguments(out, seed=rng.randrange(3))] * 4,
            ["report", out, "--store", "store"],
            ["predict", out, image],
            ["export", out, "--data-root", "data"],
            ["runs", "list", "--store", "store"],
            ["runs", "rm", rng.choice(["pretrain", "mine", "evaluate"]), "--store", "store"],
        ]
    )


def kill_later(process: subprocess.Popen[str], seconds: float) -> bool:
    """Kill a process after a while; return whether it was still running."""
    time.sleep(seconds)
    if process.poll() is not None:
        return False
    process.kill()
    return True


def folders(root: Path) -> Sequence[Path]:
    return [path for path in (root / "out", root / "other") if path.exists()]


def remove(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
