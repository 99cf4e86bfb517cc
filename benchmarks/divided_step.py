"""Measure a training step of ResNet-18 in this process, or divided over all processes of a job.

python -m benchmarks.divided_step OUT --device cuda                                           one process
python -m torch.distributed.run --nproc-per-node 2 -m benchmarks.divided_step OUT --device cuda

The first process writes the time of a step and whether the step was captured to OUT, as JSON.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from unspur import parallel
from unspur.parallel.team import Team, current, working_in
from unspur.stages.place import pick_device

from .timing import OPTIONS, Timed, network, noise_images, time_steps, training

# Image size, batch and steps. On a CPU they only show that the measurement works.
CASES = {"cuda": (64, 256, 200), "cpu": (16, 8, 10)}
STEPS_WITH_GLOO = 20  # exchanges through main memory take far longer than the step


@contextmanager
def team_of_one(device: torch.device) -> Iterator[None]:
    """Exchange with nobody, so that all code for several processes runs. No command does this."""
    cuda = device.type == "cuda"
    store: Any = dist.HashStore  # type: ignore[attr-defined]
    backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
    dist.init_process_group(backend, store=store(), rank=0, world_size=1)
    try:
        control = dist.new_group(backend="gloo")
        with working_in(Team(0, 1, control, control, 0, can_be_captured=cuda)):
            yield
    finally:
        dist.destroy_process_group()


def measure(device: torch.device, *, eager: bool) -> tuple[Timed, bool]:
    """Return the time of a step, and whether it was captured."""
    side, batch, steps = CASES[device.type]
    team = current()
    if team is not None and not team.can_be_captured:
        steps = min(steps, STEPS_WITH_GLOO)
    options = replace(OPTIONS, capture=not eager)
    model = network("resnet18", device)
    one = training("dense", model, noise_images(4 * batch, side), batch=batch, options=options)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        timed = time_steps([one], steps=steps)
    refused = any("cannot be captured" in str(each.message) for each in said)
    possible = device.type == "cuda" and (team is None or team.can_be_captured)
    return timed, possible and not eager and not refused


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="file for the result")
    parser.add_argument("--device", default="cpu", choices=CASES)
    parser.add_argument("--eager", action="store_true", help="do not capture the step")
    parser.add_argument("--team", action="store_true", help="be a team of one process")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with parallel.joined():
        device = pick_device(options.device)
        with team_of_one(device) if options.team else nullcontext():
            timed, captured = measure(device, eager=options.eager)
        if parallel.is_first():
            row = {"captured": captured, "step_us": timed.step_us, "mib": timed.peak_mib}
            options.out.write_text(json.dumps(row))


if __name__ == "__main__":
    main()
