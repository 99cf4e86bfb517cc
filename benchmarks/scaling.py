"""Measure the time and memory of a training step as functions of one size at a time.

python -m benchmarks scaling --device cpu --out results/scaling-cpu.json.gz      values for a CPU
python -m benchmarks scaling --device cuda --out results/scaling.json.gz         values for a GPU

The sizes are the number of images, pixels, classes, the batch, the width of the network, and on a GPU the
number of trainings side by side; on a CPU they take turns. In the table, `us` is the clock time of one step
of one training and `cpu_us` its CPU time in microseconds. `mib` is the peak memory: that of the process on a
CPU, where each point has a new process, and that of the device on a GPU, where all points share one.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Case:
    """One point of a curve."""

    images: int = 4000
    pixels: int = 28
    classes: int = 10
    batch: int = 64
    width: int = 16
    together: int = 1


CURVES: dict[str, dict[str, tuple[int, ...]]] = {
    "cpu": {
        "images": (1_000, 10_000, 100_000, 1_000_000),
        "pixels": (28, 56, 112, 224),
        "classes": (2, 10, 100, 1_000),
        "batch": (16, 64, 256, 1_024),
        "width": (8, 16, 32, 64, 128),
    },
    "cuda": {
        "images": (1_000, 10_000, 100_000, 1_000_000),
        "pixels": (28, 56, 112, 224),
        "classes": (2, 10, 100, 1_000),
        "batch": (32, 128, 512, 2_048),
        "width": (16, 64, 128, 256),
        "together": (1, 4, 16),
    },
}


def measure(case: Case, device: str) -> dict[str, Any]:
    """Measure one point; on a CPU in a new process, so that the memory of others does not count."""
    if device != "cpu":
        return time_case(case, device)
    code = f"from benchmarks.scaling import Case, child; child({case!r}, {device!r})"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)  # noqa: S603
    return dict(json.loads(done.stdout.splitlines()[-1]))


def child(case: Case, device: str) -> None:
    """Measure one point and print the result as JSON."""
    print(json.dumps(time_case(case, device)))


def time_case(case: Case, device: str) -> dict[str, Any]:
    """Return the time and memory of the steps of one point."""
    import torch

    from .timing import time_steps, training

    where, split = torch.device(device), _images(case)
    trainings = [
        training("dense", _network(case, where), split, batch=case.batch)
        for _ in range(case.together)
    ]
    time_steps(trainings, steps=5)  # the first use loads libraries
    timed = time_steps(trainings, steps=100 if where.type == "cuda" else 20)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    weights = sum(p.numel() for p in trainings[0].method.parameters() if p.dim() > 1)
    return {
        "weights": weights,
        "us": timed.step_us,
        "cpu_us": timed.cpu_us,
        "mib": timed.peak_mib or peak,
    }


def _images(case: Case) -> Any:
    """Return images of random pixels; after the first thousand they repeat, which saves time."""
    import torch

    from unspur.data.splits import Split

    from .timing import noise_images

    first = noise_images(min(case.images, 1000), case.pixels, case.classes)
    index = torch.arange(case.images) % len(first)
    return Split(first.images[index], first.targets[index])


def _network(case: Case, device: Any) -> Any:
    import torch

    from unspur import models

    model = models.builder("convnet", case.classes, {"width": case.width}).build(0)
    return model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]


def measure_curves(device: str, only: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Measure every point and yield its row; the error of a point that fails is printed."""
    for name, values in CURVES[device].items():
        for value in values if only is None or name in only else ():
            try:
                found = measure(replace(Case(), **{name: value}), device)
            except Exception:  # for example too little memory; other points can still be measured
                traceback.print_exc()
                continue
            yield {"size": name, "value": value, **found}


def main(arguments: list[str]) -> None:
    """Measure the curves, print a line for each point, and write them to a file."""
    from unspur.reproduce.speed_table import speed_table
    from unspur.store import environment, write_document

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks scaling",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, help="file for the numbers (.json or .json.gz)")
    parser.add_argument("--device", default="cpu", choices=list(CURVES))
    parser.add_argument(
        "--only", nargs="*", choices=list(CURVES["cpu"]), help="measure these sizes"
    )
    args = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    for row in measure_curves(args.device, args.only):
        rows.append(row)
        print(row, flush=True)
        if args.out:
            made = time.strftime("%Y-%m-%d", time.gmtime())
            tables = {"tables": {"curves": rows}}
            write_document(args.out, {"made": made, "with": environment(), **tables})
    print(speed_table(rows))
