"""Compare the time that `unspur debias` announces with the time it takes, on an idle and a busy machine.

    python scripts/announced_time.py --out results/announced-time.json.gz && make pages

Ten runs use embedded digits with a planted colour shortcut. They differ in the number and size of the images,
the steps, the width of the network, and in whether an audit comes first. Each run has a new process. During
some of them, other processes keep the machine busy. The announced time divided by the time taken should be
between 0.7 and 1.5 in nine of the ten runs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch.nn.functional as F

from unspur import workflow
from unspur.data.benchmarks import embedded, planted
from unspur.data.custom.assembly import UserImages
from unspur.data.splits import Split, Splits
from unspur.report import terminal
from unspur.reproduce.speed_table import speed_table
from unspur.stages import Run, step_timing
from unspur.stages.place import command_place
from unspur.store import environment, write_document

BOUNDS = (0.7, 1.5)


@dataclass(frozen=True)
class Case:
    """The images and lengths of a run, and the number of processes that keep the machine busy.

    `steps` is the length of the ordinary training. `audit` says whether an audit comes first, as it does
    by default.
    """

    images: int
    pixels: int
    steps: int
    width: int
    audit: bool = False
    busy: int = 0


CASES = (
    Case(500, 16, 300, 32),
    Case(1000, 28, 200, 16),
    Case(2000, 28, 300, 32),
    Case(3000, 16, 400, 32),
    Case(800, 64, 100, 16),
    Case(1500, 48, 120, 24),
    Case(600, 16, 200, 32, audit=True),
    Case(3000, 16, 200, 16, audit=True),
    Case(1000, 28, 200, 16, busy=2),
    Case(600, 16, 200, 32, audit=True, busy=2),
)


def images(count: int, pixels: int) -> Splits:
    """Return digits of a size, whose colour predicts the class in 95 % of the images."""
    found = embedded.digits()
    base = planted.from_digits(found.train_images, found.train_labels, name="digits")
    splits = planted.planted(base.some(count, seed=0), "colour", share=0.05, seed=1)
    train = splits.train
    assert isinstance(train, Split)  # planted images are in memory
    sized = F.interpolate(train.images.float(), (pixels, pixels), mode="area").byte()
    return Splits(Split(sized, train.targets), classes=splits.classes, name="digits")


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep the machine busy with this number of processes."""
    endless = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
    command = [sys.executable, "-c", endless]
    others = [subprocess.Popen(command) for _ in range(processes)]  # noqa: S603
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def settings(case: Case) -> dict[str, Any]:
    """Return the settings of a run: its lengths and the width of its network."""
    half = case.steps // 2
    lengths = {"pretrain": case.steps, "adapt": half, "prune": half, "finetune": case.steps}
    found: dict[str, Any] = {f"{stage}.steps": each for stage, each in lengths.items()}
    return found | {"model.options": {"width": case.width}, "select.every": 10}


def measure(case: Case) -> dict[str, Any]:
    """Announce the time of a run, carry it out, and return both times, by the clock and in CPU seconds.

    If an audit comes first, `debias` announces three times: with a shortcut, without one, and without one if
    the audit's miner alone decides. The one for the result of the run counts.
    """
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = open_run(case, Path(folder) / "store")
        announced = [announce_cpu(run), workflow.announce(run)]
        began = time.process_time(), time.perf_counter()
        outcome = workflow.carry_out(run, Path(folder) / "out")
        taken = time.process_time() - began[0], time.perf_counter() - began[1]
        soon = case.audit and not any(run.context.store.root.glob("audit-deprived-*"))
    debiased = outcome.advice is None or outcome.advice.debias
    cpu, clock = (for_result(times, debiased, soon) for times in announced)
    loads = {"load_before": load, "load_after": os.getloadavg()[0]}
    row = {**asdict(case), **loads, "result": "debiased" if debiased else "no shortcut"}
    row |= {"announced_s": clock, "taken_s": taken[1]}
    return row | {"times": clock / taken[1], "cpu_times": cpu / taken[0]}


def open_run(case: Case, store: Path) -> Run:
    """Prepare the run of a case."""
    place = command_place("cpu", store, terminal.show(quiet=True))
    return workflow.open_debias(
        UserImages(images(case.images, case.pixels)),
        place,
        model="convnet",
        settings=settings(case),
        anyway=not case.audit,
    )


def announce_cpu(run: Run) -> workflow.Announcement:
    """Announce the time of a run in CPU seconds, which other programs on the machine change little."""
    cpu = SimpleNamespace(perf_counter=time.process_time)
    with mock.patch.object(step_timing, "time", cpu):
        return workflow.announce(run)


def for_result(times: workflow.Announcement, debiased: bool, soon: bool) -> float:
    """Return the announced time for the result of a run; `soon` if the audit's miner alone decided."""
    if debiased:
        return times.seconds
    return times.least_seconds if soon else times.ordinary_seconds


def measure_in_new_process(case: Case) -> dict[str, Any]:
    """Measure a run in a process of its own, as a user's command is, with busy processes beside it."""
    spawn = multiprocessing.get_context("spawn")
    with busy(case.busy), ProcessPoolExecutor(1, spawn) as pool:
        return pool.submit(measure, case).result()


def within(rows: list[dict[str, Any]]) -> int:
    """Return the number of runs whose announced time is close to the time taken."""
    return sum(BOUNDS[0] <= row["times"] <= BOUNDS[1] for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="file for the numbers (.json or .json.gz)")
    parser.add_argument(
        "--only", type=int, nargs="*", choices=range(10), help="numbers of the runs, from 0"
    )
    options = parser.parse_args()
    numbers = range(len(CASES)) if options.only is None else options.only
    rows = []
    for number in numbers:
        rows.append(measure_in_new_process(CASES[number]))
        print(rows[-1], flush=True)
        if options.out:
            made = time.strftime("%Y-%m-%d", time.gmtime())
            about = {"made": made, "with": environment()}
            write_document(options.out, {**about, "tables": {"runs": rows}})
    print(speed_table(rows))
    print(f"{within(rows)} of {len(rows)} ratios are between {BOUNDS[0]} and {BOUNDS[1]}")


if __name__ == "__main__":
    main()
