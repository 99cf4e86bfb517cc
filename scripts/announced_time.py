"""Compare the time that `unspur debias` estimates with the time it takes, on an idle and a busy machine.

    python scripts/announced_time.py --out results/announced-time.json.gz --runs 10 --busy 0 4

Every run uses embedded digits with a planted shortcut. The runs differ in the number of images, the steps
and the width of the network. `--busy` gives the numbers of processes that keep the machine busy during
the runs. The estimated time divided by the actual time should be between 0.7 and 1.5 in nine of ten runs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unspur import workflow
from unspur.data.benchmarks import embedded, planted
from unspur.data.custom.assembly import UserImages
from unspur.data.splits import Splits
from unspur.report import terminal
from unspur.stages.place import command_place
from unspur.store import environment, write_document

# Images, steps of the ordinary model, and the width of the network.
CASES = [(400, 60, 16), (800, 60, 16), (400, 120, 16), (400, 40, 32), (800, 120, 8)]
BOUNDS = (0.7, 1.5)


def images(count: int) -> Splits:
    """Return digits whose colour predicts the class in 95 % of the images."""
    found = embedded.digits()
    base = planted.from_digits(found.train_images, found.train_labels, name="digits")
    splits = planted.planted(base.some(count, seed=0), "colour", share=0.05, seed=1)
    return Splits(train=splits.train, classes=splits.classes, name=splits.name)


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep the machine busy with this number of processes."""
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=spin, daemon=True) for _ in range(processes)]
    for other in others:
        other.start()
    try:
        yield
    finally:
        for other in others:
            other.terminate()
            other.join()


def spin() -> None:
    """Compute until the process is terminated."""
    while True:
        sum(range(10_000))


def measure(count: int, steps: int, width: int) -> dict[str, Any]:
    """Estimate the time of a run, carry it out, and return both times."""
    half = steps // 2
    lengths = {"pretrain": steps, "adapt": half, "prune": half, "finetune": steps}
    settings: dict[str, Any] = {f"{stage}.steps": each for stage, each in lengths.items()}
    settings |= {"model.options": {"width": width}, "mine.steps": steps, "select.every": 10}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        place = command_place("cpu", Path(folder) / "store", terminal.show(quiet=True))
        run = workflow.open_debias(
            UserImages(images(count)), place, model="convnet", settings=settings, anyway=True
        )
        announced = workflow.announce(run).seconds
        began = time.perf_counter()
        workflow.carry_out(run, Path(folder) / "out")
        taken = time.perf_counter() - began
    about = {"images": count, "steps": steps, "width": width}
    ratio = announced / taken
    return {**about, "announced": announced, "taken": taken, "ratio": ratio}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/announced-time.json.gz"))
    parser.add_argument("--runs", type=int, default=10, help="number of runs for each load")
    parser.add_argument(
        "--busy", type=int, nargs="*", default=[0, 4], help="numbers of busy processes"
    )
    options = parser.parse_args()
    rows = []
    for processes in options.busy:
        with busy(processes):
            for number in range(options.runs):
                load = os.getloadavg()[0]
                row = {"busy": processes, "load": load, **measure(*CASES[number % len(CASES)])}
                rows.append(row)
                print(row, flush=True)
                write_document(options.out, {"with": environment(), "runs": rows})
    within = sum(BOUNDS[0] <= row["ratio"] <= BOUNDS[1] for row in rows)
    print(f"{within} of {len(rows)} ratios are between {BOUNDS[0]} and {BOUNDS[1]}")


if __name__ == "__main__":
    main()
