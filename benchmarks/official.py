"""Compare the authors' released DCWP code with ours on one machine: the stages of a run on CMNIST.

python -m benchmarks --only official --official DIR --out results/official.json.gz

DIR is a checkout of https://github.com/ParkGeonYeong/DCWP. Its code is run in a new process, with DIR as the
working directory. Its files are not changed, and what it writes goes to a temporary folder. Both sides train
on the same images, the package's embedded digits in the colours of CMNIST, with batch 256. After a warm-up,
some steps of every stage are timed, and multiplied by the published numbers of steps. Passes over the images
between steps (validation, scores of samples, suspects, curves) are timed on their own, and multiplied by the
number of images that a published run predicts.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from unspur import recipes, workflow
from unspur.data.benchmarks import cmnist, embedded, layout
from unspur.data.splits import Splits
from unspur.report import terminal
from unspur.stages import driver
from unspur.stages.evaluate import Scorer
from unspur.stages.place import temporary_place
from unspur.training.numerics import Precision

Row = dict[str, Any]
ROOT = Path(__file__).parent.parent
NEEDED = ("main.py", "data/data_loader.py", "training/pruning_solver.py")
URL = "https://github.com/ParkGeonYeong/DCWP"
RECIPE = "cmnist/1pct-dcwp"
STAGES = ("mine", "pretrain", "prune", "finetune")
FEWEST = 40  # timed steps: their code scores all samples every 37 steps of this many images
ON_GPU = 250  # steps of one of the five stretches in which our steps are timed on a GPU
VALID, CONFLICTING = 500, 95  # of the 10,000 embedded training digits

# Images that a published run predicts, with 55,000 training and 10,000 test images, in batches of 256.
# Theirs: two networks are validated every 500 steps of pretraining (12,000 steps), one network every 500
# steps of pruning (2,000) and every 100 of fine-tuning (1,000). All samples are scored every 214 steps of
# pretraining (9 + 46 times), and once more to find the suspects.
THEIR_IMAGES = {
    "validation": (2 * 24 + 4 + 10) * 10_000,
    "scores of samples": (9 + 46) * 55_000,
    "suspects": 55_000,
}
# Ours: training and validation images once to find the suspects, the validation images every 500 of 15,000
# steps, and the test images for the scores of three networks.
OUR_IMAGES = 60_000 + 30 * 5_000 + 3 * 10_000


@dataclass(frozen=True)
class Times:
    """Milliseconds of a step of each stage, and the seconds of all predictions of a published run."""

    step_ms: Mapping[str, float]
    prediction_s: float


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this comparison to those of the command line."""
    parser.add_argument(
        "--official",
        type=Path,
        metavar="DIR",
        help=f"also measure the authors' released code in this folder, a checkout of {URL}. "
        "This runs the code in the folder",
    )
    parser.add_argument(
        "--official-steps",
        type=int,
        default=100,
        metavar="N",
        help=f"steps of each stage to time in that comparison (at least {FEWEST})",
    )


def compare(folder: Path, device: torch.device, steps: int) -> tuple[list[Row], list[str]]:
    """Time both codes; return the rows of a table, and notes on how they were measured."""
    check(folder, steps)
    splits = images()
    theirs, changes = time_theirs(folder, splits, device, steps)
    precisions: tuple[Precision, ...] = ("tf32", "bf16") if device.type == "cuda" else ("fp32",)
    ours: dict[str, Times] = {p: time_ours(splits, device, p, steps) for p in precisions}
    return table(theirs, ours), notes(steps, len(splits.train), changes)


def check(folder: Path, steps: int) -> None:
    """Exit if the folder is not the authors' code, or if it cannot be run here."""
    missing = [name for name in NEEDED if not (folder / name).is_file()]
    if missing:
        raise SystemExit(
            f"--official {folder} is not the authors' code: it has no {', '.join(missing)}. "
            f"Clone {URL} and give that folder."
        )
    if importlib.util.find_spec("torchvision") is None:
        raise SystemExit(
            "--official needs torchvision, which the authors' code loads images with. Install the "
            "torchvision that belongs to your torch: pip install torchvision."
        )
    if steps < FEWEST:
        raise SystemExit(f"--official-steps {steps} is too few. Give at least {FEWEST}.")


def images() -> Splits:
    """Return the embedded digits in the colours of CMNIST, 1 % of them conflicting."""
    return cmnist.generate(embedded.digits(), conflicting=CONFLICTING, valid=VALID, name="cmnist")


def all_steps(steps: int) -> int:
    """Return the steps that are trained to time some: the first fifth is a warm-up."""
    return 5 * (steps // 4)


def time_theirs(
    folder: Path, splits: Splits, device: torch.device, steps: int
) -> tuple[Times, list[str]]:
    """Run the authors' code in a new process; return its times and the changes made from outside."""
    with tempfile.TemporaryDirectory() as place:
        data, record = Path(place) / "data", Path(place) / "times.json"
        layout.write(splits, data / "cmnist", "1pct")
        paths = [folder.resolve(), data, Path(place) / "work", record]
        _run_child(folder, [str(path) for path in paths], device, all_steps(steps))
        found = json.loads(record.read_text())
    return read_times(found["rows"]), found["changes"]


def _run_child(folder: Path, paths: Sequence[str], device: torch.device, steps: int) -> None:
    """Run official_child.py. What the authors' code prints, and its errors, go to the terminal."""
    code = f"run(*map(Path, {list(paths)!r}), {steps})"
    code = f"from pathlib import Path; from benchmarks.official_child import run; {code}"
    paths_before = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    path = os.pathsep.join([str(ROOT), *(str(Path(each).resolve()) for each in paths_before)])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
    if device.type == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""  # their code uses a GPU if it sees one
    command = [sys.executable, "-B", "-c", code]
    done = subprocess.run(command, cwd=folder, env=environment, stdout=sys.stderr)  # noqa: S603
    if done.returncode:
        raise SystemExit(
            f"The authors' code in {folder} failed with exit code {done.returncode}; its error is above. "
            f"The code must be that of {URL}, with the packages it needs installed."
        )


def read_times(rows: Sequence[Mapping[str, Any]]) -> Times:
    """Return the times from the rows of official_child.py. Passes are scaled by the number of images."""
    step_ms = {row["stage"]: row["ms"] for row in rows if "stage" in row}
    passes = [row for row in rows if "pass" in row]
    seconds = 0.0
    for name, count in THEIR_IMAGES.items():
        same = [row for row in passes if row["pass"] == name]
        each = sum(row["seconds"] for row in same) / sum(row["images"] for row in same)
        seconds += each * count
    return Times(step_ms, seconds)


def time_ours(splits: Splits, device: torch.device, precision: Precision, steps: int) -> Times:
    """Run the stages of our recipe on the same images, on a GPU with more steps, as they are short."""
    stretch = max(steps // 4, ON_GPU if device.type == "cuda" else 0)
    changes: dict[str, Any] = {f"{stage}.steps": 5 * stretch for stage in STAGES}
    changes |= {"log_every": stretch, "watch_every": 10 * stretch, "precision": precision}
    recipe = recipes.change(recipes.load(RECIPE), changes)
    with temporary_place(str(device), terminal.show(quiet=True)) as place:
        run = workflow.open_recipe(recipe, place, load=lambda *args, **more: splits)
        run.check()
        for stage in STAGES:  # all of them, whatever so few steps of mining have found
            driver.add_stages((stage,), [run])
        step_ms = {stage: _mean_ms(run.results[stage].log, stretch) for stage in STAGES}
        return Times(step_ms, OUR_IMAGES * _seconds_per_image(run))


def _mean_ms(log: Sequence[Mapping[str, Any]], stretch: int) -> float:
    """Return the mean milliseconds of a step after the first stretch, which is the warm-up."""
    at = [row["seconds"] for row in log if "loss" in row]
    return float(1000 * (at[-1] - at[0]) / ((len(at) - 1) * stretch))


def _seconds_per_image(run: driver.Run) -> float:
    """Return the seconds to predict one image, from a pass over the training images."""
    scorer, source = Scorer(run.context), run.context.train
    for _ in range(2):  # the first pass warms up
        began = time.perf_counter()
        scorer.predicted(run.results.final_weights, source)
    return (time.perf_counter() - began) / len(run.context.splits.train)


def table(theirs: Times, ours: Mapping[str, Times]) -> list[Row]:
    """Return a row for each stage, one for predictions, and the sum; *times* is theirs divided by ours."""
    recipe = recipes.load(RECIPE)
    rows: list[Row] = []
    for stage in STAGES:
        count = getattr(recipe, stage).steps
        seconds = {name: each.step_ms[stage] * count / 1000 for name, each in ours.items()}
        row: Row = {"part": stage, "steps": count, "theirs_ms": theirs.step_ms[stage]}
        row |= {f"ours_{name}_ms": each.step_ms[stage] for name, each in ours.items()}
        rows.append(row | _seconds(theirs.step_ms[stage] * count / 1000, seconds))
    empty: Row = dict.fromkeys(list(rows[0])[1 : 3 + len(ours)])
    predictions = {name: each.prediction_s for name, each in ours.items()}
    rows.append({"part": "predictions", **empty, **_seconds(theirs.prediction_s, predictions)})
    total = {name: sum(row[f"ours_{name}_s"] for row in rows) for name in ours}
    sums = _seconds(sum(row["theirs_s"] for row in rows), total)
    return [*rows, {"part": "sum", **empty, **sums}]


def _seconds(theirs: float, ours: Mapping[str, float]) -> Row:
    row: Row = {"theirs_s": theirs} | {f"ours_{name}_s": each for name, each in ours.items()}
    return row | {f"{name}_times": theirs / each for name, each in ours.items()}


def notes(steps: int, train: int, changes: Sequence[str]) -> list[str]:
    """Return sentences on how the times were measured."""
    timed = 4 * (steps // 4)
    return [
        f"{timed} of their steps of every stage were timed after {steps // 4} steps of warm-up, on {train:,} "
        "training images. Seconds are for the published numbers of steps and images.",
        "Their steps of `mine` and `pretrain` train two networks, ours one. Their images are loaded by four "
        "processes, which is their default.",
        *([f"To run their code without editing it, {'; '.join(changes)}."] if changes else []),
    ]
