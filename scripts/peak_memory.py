"""Measure the peak memory of every command on many small images.

Each command is a process of its own, on the CPU. Trainings have few steps, which does not change the memory.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

STEPS = 20
STAGES = ("mine", "pretrain", "prune", "finetune")


def write_images(root: Path, count: int, side: int) -> None:
    """Write images of two classes, of which nearly all are tinted by their class."""
    rng = np.random.default_rng(0)
    for label in ("stands", "lies"):
        (root / label).mkdir(parents=True)
    for number in range(count):
        lies = number % 2
        pixels = rng.integers(0, 60, (side, side, 3), np.uint8)
        pixels[..., 2 * (lies if number % 20 else 1 - lies)] += 90
        place = rng.integers(2, side - 2)
        pixels[(place, slice(None)) if lies else (slice(None), place)] = 220
        Image.fromarray(pixels).save(root / ("lies" if lies else "stands") / f"{number:06d}.png")


def commands(images: Path, root: Path) -> dict[str, list[str]]:
    """Return every command that reads images or their results, in an order in which each can be given."""
    run, audit, store = str(root / "run"), str(root / "audit"), str(root / "store")
    sets = [f"--set={stage}.steps={STEPS}" for stage in STAGES]
    sets += [f"--set=finetune.iterates=[{STEPS}]", f"--set=select.every={STEPS}"]
    where = ["--device", "cpu", "--store", store, "-q"]
    return {
        "audit": ["audit", str(images), "--steps", str(STEPS), "--out", audit, *where],
        "debias": ["debias", str(images), "--out", run, "--anyway", *sets, *where],
        "predict": ["predict", run, str(images), "--device", "cpu"],
        "evaluate": ["evaluate", run, str(images), "--device", "cpu"],
        "export": ["export", run, "--images", str(images)],
        "report": ["report", run, "--store", store],
        "runs list": ["runs", "list", "--store", store],
    }


def measure(arguments: list[str], log: Path) -> tuple[int, float, float]:
    """Run a command; return its exit code, its largest memory in MB and its seconds."""
    began = time.monotonic()
    with log.open("w") as file:
        child = os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "unspur", *arguments],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, file.fileno(), 1),
                (os.POSIX_SPAWN_DUP2, file.fileno(), 2),
            ],
        )
        _, status, used = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), used.ru_maxrss / 1024, time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--side", type=int, default=28)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_images(root / "images", options.images, options.side)
        print(
            f"| command | peak memory with {options.images:,} images | seconds |\n|---|---:|---:|"
        )
        for name, arguments in commands(root / "images", root).items():
            code, memory, seconds = measure(arguments, root / "log.txt")
            note = "" if code == 0 else f" (exit {code}: {(root / 'log.txt').read_text()[-300:]})"
            print(f"| `unspur {name}` | {memory:,.0f} MB | {seconds:.0f} |{note}", flush=True)


if __name__ == "__main__":
    main()
