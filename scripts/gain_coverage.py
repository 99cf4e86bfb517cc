"""Measure how often the interval of the gain contains the true gain, on sets whose shortcut is known.

    python scripts/gain_coverage.py --out results/gain-coverage.json.gz

A shortcut is planted into the digits that come with unspur. `unspur debias` gets the training images
without bias labels and without other splits, and measures its gain. The true gain is that on 1,000 test
digits that contradict the shortcut and on 1,000 that follow it. Networks are small and trainings short: a
run takes about ten seconds on one CPU core. Cases that are already in the record are not run again. `make
pages` writes the table.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from unspur import workflow
from unspur.data.benchmarks import embedded, planted
from unspur.data.custom.assembly import UserImages
from unspur.data.splits import Splits
from unspur.report import terminal
from unspur.stages.place import temporary_place
from unspur.store import environment, read_document, write_document
from unspur.training.metrics import mining_quality
from unspur.training.prediction import predict
from unspur.workflow import Outcome

KINDS, SHARES, SEEDS = ("colour", "hue", "texture", "corruption"), (0.04, 0.08), range(5)
IMAGES = 2000
SETTINGS: dict[str, Any] = {
    "model.options": {"width": 16},
    "mine.steps": 120,
    "pretrain.steps": 150,
    "pretrain.rate": 5e-3,
    "prune.steps": 80,
    "prune.rate": 0.15,
    "prune.batch_norm_batches": 10,
    "finetune.steps": 80,
    "finetune.rate": 1e-3,
    "select.every": 8,
}


@dataclass(frozen=True)
class Case:
    """One run: the kind of shortcut, the share of images that contradict it, and the seed."""

    kind: str
    share: float
    seed: int


def every(seeds: Iterable[int]) -> Iterator[Case]:
    """Yield the cases of some seeds."""
    for seed in seeds:
        yield from (Case(kind, share, seed) for kind in KINDS for share in SHARES)


def measure(case: Case) -> dict[str, Any]:
    """Debias one set. Return the measured and the true gain."""
    began, digits = time.perf_counter(), embedded.digits()
    base = planted.from_digits(digits.train_images, digits.train_labels, name="digits")
    train = planted.planted(
        base.some(IMAGES, seed=case.seed), case.kind, share=case.share, seed=case.seed
    )
    base = planted.from_digits(digits.test_images, digits.test_labels, name="digits")
    test = planted.planted(base, case.kind, share=0.5, seed=1000 + case.seed)
    outcome = _debias(train, case.seed)
    conflicting = train.conflicting("train")
    assert conflicting is not None
    return {
        **asdict(case),
        "gain": outcome.numbers.get("gain"),
        "truth": _truth(outcome, test),
        "mining": mining_quality(outcome.results.suspects().conflict, conflicting),
        "seconds": round(time.perf_counter() - began, 1),
    }


def _debias(train: Splits, seed: int) -> Outcome:
    """Debias images without bias labels."""
    own = Splits(train=train.train, classes=train.classes, name="own")
    with temporary_place("cpu", terminal.show(quiet=True)) as place:
        run = workflow.open_debias(
            UserImages(own),
            place,
            model="convnet",
            settings={**SETTINGS, "seed": seed},
            anyway=True,
        )
        return workflow.carry_out(run)


def _truth(outcome: Outcome, test: Splits) -> dict[str, dict[str, float]]:
    """Return the accuracy of both models on conflicting and on aligned test images."""
    context, conflicting = outcome.context, test.conflicting("train")
    assert conflicting is not None
    stages = {"ordinary": "pretrain", "debiased": outcome.results.last_network or "pretrain"}
    right = {}
    for name, stage in stages.items():
        model = context.place(context.final_network(outcome.results.weights(stage))).eval()
        predicted = predict(model, context.source(test.train).plain()).argmax(1)
        right[name] = (predicted == test.train.targets).double()
    parts = {"suspects": conflicting, "others": ~conflicting}
    return {
        part: {name: float(hits[among].mean()) for name, hits in right.items()}
        for part, among in parts.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/gain-coverage.json.gz"))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    options = parser.parse_args()
    out = options.out
    torch.set_num_threads(1)
    runs = read_document(out)["runs"] if out.exists() else []
    done = {(run["kind"], run["share"], run["seed"]) for run in runs}
    for case in every(options.seeds):
        if (case.kind, case.share, case.seed) in done:
            continue
        runs.append(measure(case))
        write_document(
            out, {"settings": SETTINGS, "images": IMAGES, "with": environment(), "runs": runs}
        )
        print(runs[-1], flush=True)


if __name__ == "__main__":
    main()
