"""Measure the time and memory of a training step as functions of one size at a time.

python -m benchmarks scaling --device cpu --out results/scaling-cpu.json.gz      small values, for a CPU
python -m benchmarks scaling --device cuda --out results/scaling.json.gz         all values

The sizes are the number of images, pixels, classes, the batch, the width of the network, and the number
of trainings side by side. Each point is measured in a new process. `step_us` is the clock time of one
step of one training, `cpu_us` its CPU time, and `mib` the peak memory: that of the process on a CPU, that
of the device on a GPU.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
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
        "images": (1_000, 4_000, 16_000, 64_000),
        "pixels": (28, 56, 112, 224),
        "classes": (2, 10, 100, 1_000),
        "batch": (16, 64, 256),
        "width": (8, 16, 32, 64),
        "together": (1, 2),
    },
    "cuda": {
        "images": (1_000, 10_000, 100_000, 1_000_000),
        "pixels": (28, 56, 112, 224),
        "classes": (2, 10, 100, 1_000),
        "batch": (32, 128, 512, 2_048),
        "width": (16, 64, 256),
        "together": (1, 4, 16),
    },
}


def measure(case: Case, device: str) -> dict[str, Any]:
    """Measure one point in a new process, so that the memory of others does not count."""
    code = f"from benchmarks.scaling import Case, child; child({case!r}, {device!r})"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True)  # noqa: S603
    return dict(json.loads(done.stdout.splitlines()[-1]))


def child(case: Case, device: str) -> None:
    """Measure the steps of one point and print the result as JSON."""
    import torch

    from .timing import noise_images, time_steps, training

    where = torch.device(device)
    split = noise_images(case.images, case.pixels, case.classes)
    trainings = [
        training("dense", _network(case, where), split, batch=case.batch)
        for _ in range(case.together)
    ]
    time_steps(trainings, steps=5)  # the first use loads libraries
    cpu, steps = time.process_time(), 100 if where.type == "cuda" else 10
    timed = time_steps(trainings, steps=steps)
    spent = (time.process_time() - cpu) / (steps * case.together) * 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    row = {"step_us": timed.step_us, "cpu_us": spent, "mib": timed.peak_mib or peak}
    print(json.dumps(row))


def _network(case: Case, device: Any) -> Any:
    import torch

    from unspur import models

    model = models.builder("convnet", case.classes, {"width": case.width}).build(0)
    return model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]


def main(arguments: list[str]) -> None:
    """Measure the curves, print a line for each point, and write them to a file."""
    from unspur.store import environment, write_document

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks scaling",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, help="file for the numbers (.json or .json.gz)")
    parser.add_argument("--device", default="cpu", choices=list(CURVES))
    parser.add_argument("--only", nargs="*", default=None, help="measure only these sizes")
    args = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    for name, values in CURVES[args.device].items():
        if args.only is not None and name not in args.only:
            continue
        for value in values:
            row = {
                "curve": name,
                "value": value,
                **measure(replace(Case(), **{name: value}), args.device),
            }
            rows.append(row)
            print(row, flush=True)
            if args.out:
                write_document(args.out, {"with": environment(), "rows": rows})
